"""Observations: one for each request, however its answer ends."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest

from derender.errors import UpstreamLost
from derender.http.faults import FaultMiddleware
from derender.http.observation import ObservationMiddleware, is_observed, note, note_error
from derender.http.request_id import RequestIdMiddleware
from derender.telemetry.observation import CLIENT_LEFT, OTHER, AnswerFacts

from .asgi import DISCONNECT, LAST, MORE, REQUEST, START, Scripted, call, scope_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from derender.telemetry.observation import Observation


def observe(app: ASGIApp, *received: Message, path: str = "/a", method: str = "GET") -> Observation:
    """The only observation of a request."""
    observed: list[Observation] = []
    observing = ObservationMiddleware(app, endpoints=("/a",), observe=observed.append)
    with suppress(ValueError, UpstreamLost):
        call(RequestIdMiddleware(observing), {**scope_of(path), "method": method}, *received)
    (observation,) = observed
    return observation


ENDINGS: Final[dict[str, tuple[tuple[Message | Exception, ...], tuple[Message, ...], int, str | None]]] = {
    "complete": ((START, MORE, LAST), (REQUEST,), 200, None),
    "fails before its start": ((ValueError(),), (REQUEST,), 500, "InternalError"),
    "fails after its start": ((START, MORE, ValueError()), (REQUEST,), 500, "InternalError"),
    "fails after its end": ((START, LAST, ValueError()), (REQUEST,), 200, None),
    "never starts": ((), (REQUEST,), 500, "InternalError"),
    "never ends": ((START, MORE), (REQUEST,), 500, "InternalError"),
    "the client leaves before its start": ((), (DISCONNECT,), CLIENT_LEFT, "ClientLeft"),
    "the client leaves before its end": ((START, MORE), (DISCONNECT,), CLIENT_LEFT, "ClientLeft"),
    "nobody reads its end": ((START, LAST), (DISCONNECT,), CLIENT_LEFT, "ClientLeft"),
}


@pytest.mark.parametrize(("steps", "received", "status", "error"), ENDINGS.values(), ids=ENDINGS)
def test_every_request_is_observed_once(
    steps: tuple[Message | Exception, ...], received: tuple[Message, ...], status: int, error: str | None
) -> None:
    observation = observe(Scripted(*steps, receives=len(received)), *received)
    assert (observation.status, observation.error) == (status, error)
    assert observation.duration_ms > 0


def test_the_error_that_breaks_off_a_response_is_observed() -> None:
    app = FaultMiddleware(Scripted(START, MORE, UpstreamLost("lost")))
    observation = observe(app)
    assert (observation.status, observation.error) == (502, "UpstreamLost")


def test_a_client_may_leave_after_the_end() -> None:
    async def app(_: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send(LAST)
        await receive()

    observation = observe(app, DISCONNECT)
    assert (observation.status, observation.error) == (200, None)


def test_bytes_are_counted() -> None:
    observation = observe(Scripted(START, MORE, LAST, receives=2), REQUEST, REQUEST)
    assert (observation.request_bytes, observation.response_bytes) == (14, 5)


def test_the_observer_is_called_before_the_last_byte_is_sent() -> None:
    order: list[str] = []

    async def server(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_note(message: Message) -> None:
            order.append("last" if message is LAST else "sent")
            await send(message)

        app = ObservationMiddleware(
            Scripted(START, MORE, LAST), endpoints=(), observe=lambda _: order.append("observed")
        )
        await RequestIdMiddleware(app)(scope, receive, send_and_note)

    call(server, scope_of())
    assert order == ["sent", "sent", "observed", "last"]


@pytest.mark.parametrize(
    ("path", "method", "expected"),
    [("/a", "POST", ("/a", "POST")), ("/b", "GET", (OTHER, "GET")), ("/a", "QUIXOTIC", ("/a", OTHER))],
)
def test_only_known_paths_and_methods_are_named(path: str, method: str, expected: tuple[str, str]) -> None:
    observation = observe(Scripted(START, LAST), path=path, method=method)
    assert (observation.endpoint, observation.method) == expected


def test_notes_describe_the_answer() -> None:
    async def app(scope: Scope, _: Receive, send: Send) -> None:
        assert is_observed(scope)
        note(scope, lambda: AnswerFacts(model="a"))
        note(scope, lambda: AnswerFacts(model="b"))
        note_error(scope, "NotFound")
        await send({**START, "status": 404})
        await send(LAST)

    observation = observe(app)
    assert (observation.answer.model, observation.error, observation.status) == ("b", "NotFound", 404)


def test_notes_about_unobserved_requests_are_dropped() -> None:
    scope = scope_of()
    note(scope, AnswerFacts)
    note_error(scope, "NotFound")
    assert not is_observed(scope)
    assert scope == scope_of()


def test_an_observer_that_fails_does_not_break_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Observation) -> None:
        raise ValueError("secret")

    app = ObservationMiddleware(Scripted(START, LAST), endpoints=(), observe=fail)
    assert len(call(RequestIdMiddleware(app), scope_of())) == 2
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "unexpected ValueError" in record.getMessage()


def test_other_scopes_pass() -> None:
    observed: list[Observation] = []
    app = Scripted()
    call(ObservationMiddleware(app, endpoints=(), observe=observed.append), {"type": "lifespan"})
    assert app.scope == {"type": "lifespan"}
    assert observed == []
