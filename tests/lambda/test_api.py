"""The api function under the real runtime: events, responses, log lines."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.vocabulary import dump
from tests.support.api_client import CHAT
from tests.support.lambda_emulator import Runtime, http_event
from tests.support.vocabularies import manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HELLO_WORLD: Final = [9707, 11, 1879, 0]
END: Final = 151_645


@pytest.fixture(scope="module")
def function() -> Iterator[Runtime]:
    with Runtime() as runtime:
        yield runtime


def generated(token_ids: list[int], **fields: object) -> str:
    """Return the body of a request with one choice."""
    choice = {"index": 0, "token_ids": token_ids, "finish_reason": "stop"}
    response = {"request_id": "chatcmpl-1", "choices": [choice], **fields}
    return json.dumps({"generate_response": response, "chat_request": {}})


def rest_event(body: str) -> dict[str, Any]:
    """Return an event of a REST API (payload format 1.0) for a proxy resource."""
    return {
        "resource": "/{proxy+}",
        "path": CHAT,
        "httpMethod": "POST",
        "headers": {
            "Content-Type": "application/json",
            "Host": "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com",
        },
        "multiValueHeaders": {
            "Content-Type": ["application/json"],
            "Host": ["a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com"],
        },
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "pathParameters": {"proxy": CHAT.removeprefix("/")},
        "stageVariables": None,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "a1b2c3d4e5",
            "httpMethod": "POST",
            "identity": {"sourceIp": "192.0.2.1", "userAgent": "curl/8.7.1"},
            "path": f"/prod{CHAT}",
            "protocol": "HTTP/1.1",
            "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
            "resourceId": "abc123",
            "resourcePath": "/{proxy+}",
            "stage": "prod",
        },
        "body": body,
        "isBase64Encoded": False,
    }


def url_event(body: str) -> dict[str, Any]:
    """Return an event of a function URL."""
    event = http_event(CHAT, body)
    domain = "abcdefghijklmnopqrstuvwxyz012345.lambda-url.eu-central-1.on.aws"
    event["headers"]["host"] = event["requestContext"]["domainName"] = domain
    event["requestContext"]["domainPrefix"] = event["requestContext"]["apiId"] = domain.partition(".")[0]
    event["requestContext"]["authentication"] = None
    return event


def base64_event(body: str) -> dict[str, Any]:
    """Return an event whose body the gateway took for binary."""
    return http_event(CHAT, base64.b64encode(body.encode()).decode(), base64=True)


def gzip_event(body: str) -> dict[str, Any]:
    """Return an event with a compressed body."""
    content = base64.b64encode(gzip.compress(body.encode())).decode()
    return http_event(CHAT, content, headers={"content-encoding": "gzip"}, base64=True)


@pytest.mark.parametrize(
    "event",
    [lambda body: http_event(CHAT, body), rest_event, url_event, base64_event, gzip_event],
    ids=["http", "rest", "url", "base64", "gzip"],
)
def test_chat(function: Runtime, event: Callable[[str], dict[str, Any]]) -> None:
    answer = function.invoke(event(generated([*HELLO_WORLD, END])))
    assert answer["statusCode"] == 200
    assert answer["headers"]["content-type"] == "application/json"
    assert answer["isBase64Encoded"] is False
    (choice,) = json.loads(answer["body"])["choices"]
    assert choice["message"]["content"] == "Hello, world!"
    assert choice["finish_reason"] == "stop"


def test_completion(function: Runtime) -> None:
    body = json.dumps({"generate_responses": [json.loads(generated([*HELLO_WORLD, END]))["generate_response"]]})
    answer = function.invoke(http_event("/v1/completions/derender", body))
    assert answer["statusCode"] == 200
    assert json.loads(answer["body"])["choices"][0]["text"] == "Hello, world!"


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/version", "/docs", "/openapi.json"])
def test_get(function: Runtime, path: str) -> None:
    assert function.invoke(http_event(path, method="GET"))["statusCode"] == 200


@pytest.mark.parametrize("compressed", [True, False])
def test_large_response(function: Runtime, *, compressed: bool) -> None:
    headers = {"accept-encoding": "gzip, deflate, br"} if compressed else {}
    answer = function.invoke(http_event(CHAT, generated([*HELLO_WORLD * 2000, END]), headers=headers))
    assert answer["statusCode"] == 200
    assert answer["isBase64Encoded"] is compressed
    assert answer["headers"].get("content-encoding") == ("gzip" if compressed else None)
    body = gzip.decompress(base64.b64decode(answer["body"])) if compressed else answer["body"]
    assert json.loads(body)["choices"][0]["message"]["content"] == "Hello, world!" * 2000


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "param"),
    [
        (CHAT, "{", 400, "Bad Request", "body"),
        (CHAT, "{}", 400, "Bad Request", "generate_response"),
        (CHAT, '{"model": "other",' + generated(HELLO_WORLD)[1:], 404, "NotFoundError", "model"),
        ("/v1/nothing", "{}", 404, "NotFoundError", None),
    ],
)
def test_error(function: Runtime, path: str, body: str, status: int, kind: str, param: str | None) -> None:
    answer = function.invoke(http_event(path, body))
    assert answer["statusCode"] == status
    assert answer["headers"]["content-type"] == "application/json"
    error = json.loads(answer["body"])["error"]
    assert (error["code"], error["type"], error["param"]) == (status, kind, param)
    assert error["message"]


def test_layer(tmp_path: Path) -> None:
    (tmp_path / "tiny.vocab").write_bytes(dump(manifest(name="tiny"), [b"Hi", b"!", b"</s>"]))
    with Runtime(environment={"DERENDER_LAYER": str(tmp_path)}) as function:
        answer = json.loads(function.invoke(http_event(CHAT, generated([0, 1, 2])))["body"])
    assert answer["model"] == "tiny"
    assert answer["choices"][0]["message"]["content"] == "Hi!"


def test_a_bad_setting_ends_the_start_with_one_line() -> None:
    with Runtime(environment={"DERENDER_MAX_LOGPROBS": "x"}) as function:
        with pytest.raises(RuntimeError, match="did not answer"):
            function.invoke(http_event(CHAT, generated(HELLO_WORLD)))
        logs = function.logs
    assert "derender: DERENDER_MAX_LOGPROBS must be an integer of at least -1, got 'x'\n" in logs
    assert logs.count("DERENDER_MAX_LOGPROBS") == 1
    assert "Traceback" not in logs


def test_log_lines_repeat_no_content() -> None:
    marker = "quixotic-marmalade"
    with Runtime() as function:
        requests = [
            generated(HELLO_WORLD * 50, kv_transfer_params={"marker": marker}),
            generated(HELLO_WORLD, prompt_token_ids=marker),
            generated([*HELLO_WORLD, 10**9], metrics={"marker": marker}),
            generated(HELLO_WORLD)[:-1] + marker,
            marker,
        ]
        statuses = [function.invoke(http_event(CHAT, body))["statusCode"] for body in requests]
        logs = function.logs
    assert statuses == [200, 400, 400, 400, 400]
    assert logs.count("START RequestId") == len(requests)
    for content in (marker, "Hello", "9707, 11", "1000000000"):
        assert content not in logs
