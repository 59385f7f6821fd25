"""Lambda's payload limits: what just fits is returned, and of more the client is told what to do.

The runtime's own serialization, and its emulator, say what fits.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from awslambdaric.lambda_runtime_marshaller import LambdaMarshaller  # type: ignore[import-untyped]
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st

from lambda_runtime.http_handler import HttpHandler
from lambda_runtime.response_size import MAX_RESPONSE, response_size, writes_ascii
from tests.support.api_client import CHAT, Answer
from tests.support.api_client import event as event_of
from tests.support.functions import started
from tests.support.lambda_emulator import Runtime, http_event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.api_client import EventKind
    from tests.support.functions import Function

ESCAPED: Final = "AWS_Lambda_python3.11"
UNESCAPED: Final = "AWS_Lambda_python3.13"
"""What `AWS_EXECUTION_ENV` is where the runtime writes characters as they are; that of the template."""
MAX_REQUEST: Final = 6 * 1024 * 1024
"""Bytes of the largest event."""
KINDS: Final[list[EventKind]] = ["http", "rest", "url"]


@pytest.fixture(scope="module")
def api() -> Iterator[Function]:
    with started() as function:
        yield function


def response_of(body: str, **changes: Any) -> dict[str, Any]:
    """What the adapter returns."""
    headers = {"content-type": "application/json", "content-length": str(len(body.encode()))}
    response = {"statusCode": 200, "body": body, "headers": headers, "isBase64Encoded": False}
    return {**response, **changes}


def written(response: dict[str, Any], runtime: str) -> bytes:
    """A response as the runtime writes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_EXECUTION_ENV", runtime)
        content, _ = LambdaMarshaller().marshal_response(response)
    assert isinstance(content, str)
    return content.encode()


def answered(response: dict[str, Any], runtime: str = UNESCAPED) -> dict[str, Any]:
    """What is returned where the adapter returns a response."""
    handler = HttpHandler(lambda _: FastAPI(), lambda _: None, {"AWS_EXECUTION_ENV": runtime})
    handler._adapter = lambda *_: response  # type: ignore[assignment]
    return handler({}, None)


def error_in(response: dict[str, Any]) -> dict[str, Any]:
    error: dict[str, Any] = Answer(response).error
    return error


# --- the size -------------------------------------------------------------------------------------------------

characters = st.sampled_from('a/é∞😀"\\\b\t\n\f\r\x00\x1f\x7f\x80\u2028\u2029\ud7ff\uffff') | st.characters(
    codec="utf-8"
)


@settings(deadline=None)
@given(body=st.text(characters), headers=st.dictionaries(st.text(), st.text()))
@pytest.mark.parametrize("runtime", [ESCAPED, UNESCAPED])
def test_the_size_is_that_of_what_the_runtime_writes(runtime: str, body: str, headers: dict[str, str]) -> None:
    response = response_of(body, headers=headers, cookies=[body])
    ascii_only = writes_ascii({"AWS_EXECUTION_ENV": runtime})
    assert response_size(response, ascii_only=ascii_only) == len(written(response, runtime))


@pytest.mark.parametrize("runtime", ["AWS_Lambda_python3.9", ESCAPED, UNESCAPED, "AWS_Lambda_python3.15", ""])
def test_the_runtime_escapes_what_it_is_said_to(runtime: str) -> None:
    assert written({"é": 1}, runtime).isascii() is writes_ascii({"AWS_EXECUTION_ENV": runtime})


def test_a_runtime_of_no_known_version_is_taken_for_one_that_writes_more() -> None:
    assert writes_ascii({})
    assert writes_ascii({"AWS_EXECUTION_ENV": "AWS_Lambda_python3.99"})


# --- at the limit ---------------------------------------------------------------------------------------------


def body_that_fills(character: str, runtime: str, size: int) -> str:
    """A body of one character, and of a few others, that makes the payload of exactly a size."""
    # All content lengths are of seven digits.
    empty = len(written(response_of("", headers=response_of("a" * 1_000_000)["headers"]), runtime))
    once = len(written(response_of(character * 1000), runtime)) - len(written(response_of("a" * 1000), runtime))
    count, rest = divmod(size - empty, once // 1000 + 1)
    return character * count + "a" * rest


@pytest.mark.parametrize("runtime", [ESCAPED, UNESCAPED])
@pytest.mark.parametrize("character", ["a", '"', "\\", "\n", "\x00", "\x7f", "é", "∞", "😀"], ids=ascii)
def test_a_response_of_the_limit_is_returned_and_one_byte_more_is_a_413(character: str, runtime: str) -> None:
    largest = response_of(body_that_fills(character, runtime, MAX_RESPONSE))
    assert len(written(largest, runtime)) == MAX_RESPONSE
    assert answered(largest, runtime) is largest
    larger = response_of(largest["body"] + "a")
    assert len(written(larger, runtime)) == MAX_RESPONSE + 1
    response = answered(larger, runtime)
    error = error_in(response)
    assert (error["code"], error["type"]) == (413, "ResponseTooLargeError")
    assert f"{MAX_RESPONSE + 1} bytes" in error["message"]
    assert len(written(response, runtime)) < 1000


@pytest.mark.parametrize("runtime", [ESCAPED, UNESCAPED])
def test_a_compressed_response_of_the_limit_is_returned_and_one_byte_more_is_a_413(runtime: str) -> None:
    compressed = {"isBase64Encoded": True, "headers": {"content-encoding": "gzip"}}
    empty = len(written(response_of("", **compressed), runtime))
    largest = response_of("+" * (MAX_RESPONSE - empty), **compressed)
    assert answered(largest, runtime) is largest
    error = error_in(answered(response_of(largest["body"] + "=", **compressed), runtime))
    assert error["code"] == 413


def test_the_413_says_what_to_do() -> None:
    advice = ("fewer candidates", "fewer choices", "batch")
    plain = error_in(answered(response_of("a" * MAX_RESPONSE)))["message"]
    headers = {"content-encoding": "gzip"}
    packed = error_in(answered(response_of("a" * MAX_RESPONSE, headers=headers, isBase64Encoded=True)))[
        "message"
    ]
    assert all(word in plain for word in (*advice, "gzip"))
    assert all(word in packed for word in advice)
    assert "gzip" not in packed


def test_other_headers_stay_and_those_of_the_body_do_not() -> None:
    headers = {"content-type": "x/y", "content-encoding": "gzip", "content-length": "9", "x-request-id": "r"}
    response = answered(response_of("a" * MAX_RESPONSE, headers=headers, isBase64Encoded=True))
    assert response["headers"] == {
        "content-type": "application/json",
        "content-length": str(len(response["body"])),
        "x-request-id": "r",
    }
    assert response["isBase64Encoded"] is False


def test_a_small_answer_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("lambda_runtime.response_size.response_size")
    small = response_of("\N{GRINNING FACE}" * 256 * 1024)
    assert answered(small) is small
    assert len(written(small, ESCAPED)) < MAX_RESPONSE


@pytest.mark.parametrize(
    "event",
    [{}, {"Records": []}, None, [], http_event(headers={"host": "a:b:c"}), http_event(headers={"x": "\ud800"})],
    ids=["nothing", "records", "null", "list", "a broken host", "half a character"],
)
def test_an_event_that_is_no_request_is_answered_as_a_bad_request(api: Function, event: object) -> None:
    error = error_in(api(event))
    assert (error["code"], error["type"]) == (400, "Bad Request")


# --- gzip -----------------------------------------------------------------------------------------------------


def request_of(text: str, **fields: object) -> bytes:
    """A request whose answer holds a text."""
    response = {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707]}], "metrics": text, **fields}
    return json.dumps({"generate_response": response, "chat_request": {}}, ensure_ascii=False).encode()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("header", "compressed"), [("br, gzip", True), ("gzip;q=0, br", False)])
def test_an_answer_is_compressed_where_the_client_accepts_it(
    api: Function, kind: EventKind, header: str, compressed: bool
) -> None:
    text = "é😀\n" * 10_000
    sent = gzip.compress(request_of(text))
    headers = {"content-encoding": "gzip", "accept-encoding": header}
    response = api(event_of(kind, "POST", CHAT, sent, headers))
    assert response["isBase64Encoded"] is compressed
    answer = Answer(response)
    assert answer.headers.get("content-encoding") == ("gzip" if compressed else None)
    assert answer.headers["vary"] == "Accept-Encoding"
    content = base64.b64decode(response["body"]) if response["isBase64Encoded"] else response["body"].encode()
    assert int(answer.headers["content-length"]) == len(content)
    assert answer.status == 200
    assert answer.json["metrics"] == text


# --- under the runtime ----------------------------------------------------------------------------------------


def test_the_emulator_refuses_what_is_larger(tmp_path: Path) -> None:
    code = "def handler(event, context):\n    return {'body': 'a' * event}\n"
    (tmp_path / "sized.py").write_text(code, encoding="utf-8")
    most = MAX_RESPONSE - len(written({"body": ""}, UNESCAPED))
    with Runtime(tmp_path, handler="sized.handler") as function:
        assert function.invoke(most) == {"body": "a" * most}
        assert function.invoke(most + 1)["errorType"] == "Function.ResponseSizeTooLarge"


def test_the_emulator_takes_the_largest_answer_and_the_client_gets_a_413_of_a_larger_one() -> None:
    with Runtime(environment={"AWS_EXECUTION_ENV": UNESCAPED}) as function:

        def answer(text: str, **headers: str) -> dict[str, Any]:
            body = base64.b64encode(gzip.compress(request_of(text), 1)).decode()
            event = http_event(CHAT, body, headers={"content-encoding": "gzip", **headers}, base64=True)
            response: dict[str, Any] = function.invoke(event)
            assert "errorType" not in response
            return response

        text = '"é😀' * 550_000
        text += "a" * (MAX_RESPONSE - len(written(answer(text), UNESCAPED)))
        largest = answer(text)
        assert largest["statusCode"] == 200
        assert len(written(largest, UNESCAPED)) == MAX_RESPONSE
        larger = answer(text + "a")
        assert error_in(larger)["code"] == 413
        assert f"{MAX_RESPONSE + 1} bytes" in error_in(larger)["message"]
        # What the message says helps.
        packed = answer(text + "a", **{"accept-encoding": "gzip"})
        assert Answer(packed).json["metrics"] == text + "a"


def test_the_largest_event_is_read(api: Function) -> None:
    def event(padding: int) -> dict[str, Any]:
        return http_event(CHAT, request_of("", padding="a" * padding).decode())

    size = MAX_REQUEST - len(json.dumps(event(0)))
    # The length of the body is written in the event.
    largest = event(size - (len(json.dumps(event(size))) - MAX_REQUEST))
    assert len(json.dumps(largest)) == MAX_REQUEST
    assert Answer(api(largest)).status == 200


def test_a_compressed_event_holds_more_than_lambda_takes(api: Function) -> None:
    sent = request_of("", padding="a" * 4 * MAX_REQUEST)
    event = event_of("http", "POST", CHAT, gzip.compress(sent), {"content-encoding": "gzip"})
    assert len(json.dumps(event)) < MAX_REQUEST / 50
    assert Answer(api(event)).status == 200


@pytest.mark.parametrize("compressed", [False, True])
def test_a_body_of_the_limit_is_read_and_one_byte_more_is_a_413(*, compressed: bool) -> None:
    limit = 100_000
    sizes = {limit: 200, limit + 1: 413}
    with started({"DERENDER_MAX_BODY_BYTES": str(limit)}) as function:
        for size, status in sizes.items():
            sent = request_of("", padding="a" * (size - len(request_of("", padding=""))))
            assert len(sent) == size
            headers = {"content-encoding": "gzip"} if compressed else {}
            content = gzip.compress(sent) if compressed else sent
            answer = Answer(function(event_of("http", "POST", CHAT, content, headers)))
            assert answer.status == status
    assert answer.error["type"] == "RequestTooLargeError"
    assert all(word in answer.error["message"] for word in (str(limit), "fewer", "DERENDER_MAX_BODY_BYTES"))
