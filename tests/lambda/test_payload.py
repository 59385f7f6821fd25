"""Lambda's payload limits under the runtime's emulator, and bodies up to the limit."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from lambda_runtime.response_size import MAX_RESPONSE
from tests.support.api_client import CHAT, Answer
from tests.support.api_client import event as event_of
from tests.support.functions import started
from tests.support.lambda_emulator import Runtime, http_event
from tests.support.lambda_responses import UNESCAPED, written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.api_client import EventKind
    from tests.support.functions import Function


MAX_REQUEST: Final = 6 * 1024 * 1024
"""Bytes of the largest event that Lambda takes."""


KINDS: Final[list[EventKind]] = ["http", "rest", "url"]


@pytest.fixture(scope="module")
def api() -> Iterator[Function]:
    with started() as function:
        yield function


def request_of(text: str, **fields: object) -> bytes:
    """Return a request whose answer contains a text."""
    response = {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707]}], "metrics": text, **fields}
    return json.dumps({"generate_response": response, "chat_request": {}}, ensure_ascii=False).encode()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("header", "compressed"), [("br, gzip", True), ("gzip;q=0, br", False)])
def test_an_answer_is_compressed_if_the_client_accepts_it(
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


def test_lambda_refuses_a_larger_response(tmp_path: Path) -> None:
    code = "def handler(event, context):\n    return {'body': 'a' * event}\n"
    (tmp_path / "sized.py").write_text(code, encoding="utf-8")
    most = MAX_RESPONSE - len(written({"body": ""}, UNESCAPED))
    with Runtime(tmp_path, handler="sized.handler") as function:
        assert function.invoke(most) == {"body": "a" * most}
        assert function.invoke(most + 1)["errorType"] == "Function.ResponseSizeTooLarge"


def test_the_largest_answer_is_returned_and_a_larger_one_is_a_413() -> None:
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
        assert Answer(larger).error["code"] == 413
        assert f"{MAX_RESPONSE + 1} bytes" in Answer(larger).error["message"]
        # The advice in the message helps.
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


def test_a_compressed_request_may_exceed_the_limit_of_events(api: Function) -> None:
    sent = request_of("", padding="a" * 4 * MAX_REQUEST)
    event = event_of("http", "POST", CHAT, gzip.compress(sent), {"content-encoding": "gzip"})
    assert len(json.dumps(event)) < MAX_REQUEST / 50
    assert Answer(api(event)).status == 200


@pytest.mark.parametrize("compressed", [False, True])
def test_a_body_of_the_limit_is_read_and_a_larger_one_is_a_413(*, compressed: bool) -> None:
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
