"""Errors as responses."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from derender.errors import BadRequest, InternalError, UpstreamBusy
from derender.http.faults import FaultMiddleware
from tests.support.api_client import CHAT

from .asgi import LAST, MORE, START, Scripted, call, scope_of

if TYPE_CHECKING:
    from starlette.types import Message

    from tests.support.api_client import Client


def answer_of(sent: list[Message]) -> tuple[int, dict[str, str], dict[str, Any]]:
    """The status, the headers and the error of a response."""
    start, body = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    error: dict[str, Any] = json.loads(body["body"])["error"]
    return start["status"], headers, error


def test_an_error_of_derender_is_answered() -> None:
    app = Scripted(BadRequest("n must be at least 1, got 0", param="n"))
    status, headers, error = answer_of(call(FaultMiddleware(app), scope_of()))
    assert status == 400
    assert headers["content-type"] == "application/json"
    assert "retry-after" not in headers
    assert error == {
        "message": "n must be at least 1, got 0",
        "type": "BadRequestError",
        "param": "n",
        "code": 400,
    }


def test_an_error_says_when_to_try_again() -> None:
    app = Scripted(UpstreamBusy(HTTPStatus.TOO_MANY_REQUESTS, "busy", retry_after="7"))
    status, headers, _ = answer_of(call(FaultMiddleware(app), scope_of()))
    assert (status, headers["retry-after"]) == (429, "7")


def test_an_unexpected_exception_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    status, _, error = answer_of(call(FaultMiddleware(Scripted(ValueError("secret"))), scope_of()))
    assert (status, error["type"], error["message"]) == (500, "InternalServerError", "internal error")
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "unexpected ValueError" in record.getMessage()


@pytest.mark.parametrize(
    ("raised", "expected"), [(ValueError("secret"), InternalError), (BadRequest("n"), BadRequest)]
)
def test_an_error_after_the_start_of_the_response_goes_on(raised: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected) as error:
        call(FaultMiddleware(Scripted(START, MORE, raised)), scope_of())
    assert "secret" not in str(error.value)
    assert error.value.__suppress_context__ or error.value is raised


def test_responses_and_other_scopes_pass() -> None:
    assert call(FaultMiddleware(Scripted(START, LAST)), scope_of()) == [START, LAST]
    app = Scripted()
    call(FaultMiddleware(app), {"type": "lifespan"})
    assert app.scope == {"type": "lifespan"}
    with pytest.raises(ValueError, match="startup"):
        call(FaultMiddleware(Scripted(ValueError("startup"))), {"type": "lifespan"})


@pytest.mark.parametrize(
    ("path", "method", "status", "kind"),
    [
        ("/nothing", "GET", 404, "NotFoundError"),
        (f"{CHAT}/", "POST", 404, "NotFoundError"),
        (CHAT, "GET", 405, "MethodNotAllowedError"),
        ("/health", "POST", 405, "MethodNotAllowedError"),
        ("/ping", "PUT", 405, "MethodNotAllowedError"),
    ],
)
def test_unknown_paths_and_methods_are_answered_in_the_envelope(
    client: Client, path: str, method: str, status: int, kind: str
) -> None:
    answer = client.send(path, method=method)
    assert answer.status == status
    assert (answer.error["type"], answer.error["param"]) == (kind, None)
    allowed = {CHAT: "POST", "/health": "GET", "/ping": "GET, POST"}
    assert answer.headers.get("allow") == (allowed[path] if status == 405 else None)


@pytest.mark.parametrize("error", [ClientDisconnect(), HTTPException(500)])
def test_exceptions_of_the_framework_are_answered(
    client: Client, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("derender.http.routes.answer", fail)
    answer = client.send(CHAT, b"{}")
    if isinstance(error, HTTPException):
        assert (answer.status, answer.error["type"]) == (500, "InternalServerError")
    else:
        assert (answer.status, answer.body) == (400, b"")
    assert caplog.records == []
