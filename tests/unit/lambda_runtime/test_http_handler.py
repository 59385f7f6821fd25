"""HTTP events: every event gets a response that Lambda returns."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.http.app import create_app
from derender.models.layer import load_models
from derender.settings import Settings
from derender.telemetry.observer import Observer
from lambda_runtime.http_handler import HttpHandler
from lambda_runtime.response_size import MAX_RESPONSE
from tests.support.api_client import CHAT, COMPLETIONS, Answer, event
from tests.support.lambda_responses import ESCAPED, UNESCAPED, make_response, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI

    from derender.telemetry.observation import Observation, Observe
    from tests.support.log_lines import LogLines

CONTEXT: Final = SimpleNamespace(aws_request_id="invoked-1")
both_runtimes = pytest.mark.parametrize("runtime", [ESCAPED, UNESCAPED])


@pytest.fixture(autouse=True)
def _event_loop() -> Iterator[None]:
    """Set the event loop that Mangum runs the application on."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.run_until_complete(loop.shutdown_asyncgens())
    asyncio.set_event_loop(None)
    loop.close()


def make_app(observe: Observe) -> FastAPI:
    return create_app(models(), max_body_bytes=1 << 24, observe=observe)


@cache
def models() -> Any:
    return load_models(Settings.from_environment({}))


def handle(response: dict[str, Any], runtime: str = UNESCAPED) -> dict[str, Any]:
    """Return what the handler returns if the application answers with a response."""
    handler = HttpHandler(make_app, lambda _: None, {"AWS_EXECUTION_ENV": runtime})
    handler._adapter = lambda *_: response  # type: ignore[assignment]
    return handler({}, CONTEXT)


def generated(count: int) -> dict[str, Any]:
    return {"request_id": "r", "choices": [{"index": 0, "token_ids": [0] * count, "finish_reason": "stop"}]}


def test_an_event_is_answered_and_observed() -> None:
    observations: list[Observation] = []
    handler = HttpHandler(make_app, observations.append)
    for count in (1, 2):
        body = json.dumps({"generate_response": generated(count), "chat_request": {}}).encode()
        answer = Answer(handler(event("http", "POST", CHAT, body), CONTEXT))
        assert answer.status == 200
        assert observations[-1].answer.tally.completion_tokens == count
        assert observations[-1].request_id == answer.headers["x-request-id"] == "0"
    assert len(observations) == 2


# --- responses that Lambda does not return --------------------------------------------------------------------


@both_runtimes
def test_a_larger_response_is_replaced(runtime: str) -> None:
    empty = len(written(make_response("", headers=make_response("a" * 1_000_000)["headers"]), runtime))
    largest = make_response("a" * (MAX_RESPONSE - empty))
    assert handle(largest, runtime) is largest
    response = handle(make_response(largest["body"] + "a"), runtime)
    error = Answer(response).error
    assert (response["statusCode"], error["code"], error["type"]) == (413, 413, "ResponseTooLargeError")
    assert f"{MAX_RESPONSE + 1} bytes" in error["message"]
    assert len(written(response, runtime)) < 1000


@both_runtimes
def test_a_larger_compressed_response_is_replaced(runtime: str) -> None:
    compressed = {"isBase64Encoded": True, "headers": {"content-encoding": "gzip"}}
    empty = len(written(make_response("", **compressed), runtime))
    largest = make_response("+" * (MAX_RESPONSE - empty), **compressed)
    assert handle(largest, runtime) is largest
    assert Answer(handle(make_response(largest["body"] + "=", **compressed), runtime)).error["code"] == 413


def test_the_error_tells_what_to_do() -> None:
    advice = ("fewer candidates", "fewer choices", "batch")
    headers = {"content-encoding": "gzip"}
    plain, compressed = (
        Answer(handle(make_response("a" * MAX_RESPONSE, **changes))).error["message"]
        for changes in ({}, {"headers": headers, "isBase64Encoded": True})
    )
    assert all(word in plain for word in (*advice, "gzip"))
    assert all(word in compressed for word in advice)
    assert "gzip" not in compressed


def test_headers_that_do_not_describe_the_body_stay() -> None:
    headers = {"content-type": "x/y", "content-encoding": "gzip", "content-length": "9", "x-request-id": "r"}
    response = handle(make_response("a" * MAX_RESPONSE, headers=headers, isBase64Encoded=True))
    assert response["headers"] == {
        "content-type": "application/json",
        "content-length": str(len(response["body"])),
        "x-request-id": "r",
    }
    assert response["isBase64Encoded"] is False


def test_the_replaced_response_is_observed(log_lines: LogLines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lambda_runtime.response_size.MAX_RESPONSE", 500)
    handler = HttpHandler(make_app, Observer("api", {"DERENDER_SERVICE": "stack"}))
    body = json.dumps({"generate_responses": [generated(100)]}).encode()
    response = handler(event("http", "POST", COMPLETIONS, body, {"x-request-id": "mine"}), CONTEXT)
    assert response["statusCode"] == 413
    line, metrics = log_lines()
    assert (line["status"], line["error"], line["level"]) == (413, "ResponseTooLarge", "WARNING")
    assert line["response_bytes"] == len(response["body"])
    assert line["request_id"] == response["headers"]["x-request-id"] == "mine"
    assert (metrics["Error"], metrics["ClientErrors"]) == ("ResponseTooLarge", 1)


# --- events that can't be answered ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "unreadable",
    [
        {},
        {"Records": []},
        None,
        [],
        event("http", "GET", "/", headers={"host": "a:b:c"}),
        event("http", "GET", "/", headers={"x": "\ud800"}),
    ],
    ids=["nothing", "records", "null", "list", "a broken host", "half a character"],
)
def test_an_event_of_another_kind_is_a_bad_request(log_lines: LogLines, unreadable: object) -> None:
    response = HttpHandler(make_app, lambda _: None)(unreadable, CONTEXT)
    error = Answer(response).error
    assert (error["code"], error["type"]) == (400, "Bad Request")
    (line,) = log_lines()
    assert (line["level"], line["function_request_id"]) == ("ERROR", "invoked-1")
    assert line["message"].startswith("unexpected ")


def test_a_fault_of_the_handler_is_an_internal_error(
    log_lines: LogLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = HttpHandler(make_app, lambda _: None)
    monkeypatch.setattr("lambda_runtime.http_handler.excess_size", lambda *_, **__: 1 / 0)
    response = handler(event("http", "GET", "/health"), CONTEXT)
    assert Answer(response).error["code"] == 500
    (line,) = log_lines()
    assert line["message"].startswith("unexpected ZeroDivisionError")
    # A fault of logging changes nothing.
    monkeypatch.setattr("lambda_runtime.http_handler.log_unexpected", lambda _: 1 / 0)
    assert handler(event("http", "GET", "/health"), CONTEXT) == response


def test_responses_do_not_share_their_headers() -> None:
    handler = HttpHandler(make_app, lambda _: None)
    first, second = (handler(None, None) for _ in range(2))
    assert first == second
    assert first is not second
