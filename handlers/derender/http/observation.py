"""Observations: each request is measured until its answer is complete, and reported to an observer."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final

from derender.errors import InternalError
from derender.telemetry.faults import log_unexpected
from derender.telemetry.observation import CLIENT_LEFT, OTHER, AnswerFacts, Observation
from derender.telemetry.request_ids import REQUEST_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from derender.errors import DerenderError
    from derender.telemetry.observation import Observe

__all__ = ["ObservationMiddleware", "is_observed", "note", "note_error", "note_fault"]

_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_NOTES: Final = "derender.notes"


@dataclass
class _Notes:
    """What the code that answers a request notes for the observation."""

    describe: Callable[[], AnswerFacts] = AnswerFacts
    error: str | None = None
    status: int | None = None


def is_observed(scope: Scope) -> bool:
    """Return whether a request is observed."""
    return _NOTES in scope


def note(scope: Scope, describe: Callable[[], AnswerFacts]) -> None:
    """Note how to describe the answer. A later note replaces it.

    Args:
        scope: The scope of the request.
        describe: Called once the answer is complete, if the request is observed.
    """
    if _NOTES in scope:
        scope[_NOTES].describe = describe


def note_error(scope: Scope, kind: str, status: int | None = None) -> None:
    """Note the kind of error that the answer ends with, and its status if that is not the response's."""
    if _NOTES in scope:
        scope[_NOTES].error = kind
        scope[_NOTES].status = status


def note_fault(scope: Scope, fault: DerenderError) -> None:
    """Note the error that the answer ends with."""
    note_error(scope, type(fault).__name__, fault.status)


class ObservationMiddleware:
    """Reports an observation of each request to an observer."""

    def __init__(self, app: ASGIApp, *, endpoints: Container[str], observe: Observe) -> None:
        """Wrap an application.

        Args:
            app: The application.
            endpoints: The paths that it has routes for.
            observe: Called once for each request, when its answer is complete or its client has left.
        """
        self.app = app
        self.endpoints = endpoints
        self.observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request (ASGI)."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = _ObservedRequest(self, scope, receive, send)
        try:
            await self.app(scope, request.receive, request.send)
        finally:
            request.end()


class _ObservedRequest:
    """A request that is measured until its answer is complete."""

    def __init__(self, middleware: ObservationMiddleware, scope: Scope, receive: Receive, send: Send) -> None:
        self._middleware, self._scope, self._receive, self._send = middleware, scope, receive, send
        self._start = perf_counter()
        self._status = int(InternalError.status)  # of an answer that never starts
        self._received = self._sent = 0
        self._client_left = self._complete = False
        self._notes = scope[_NOTES] = _Notes()

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
        elif not self._complete:
            self._client_left = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        else:
            self._sent += len(message.get("body", b""))
            if not message.get("more_body", False):
                # Before the last byte is sent: after it, Lambda may freeze the process.
                self._report()
        await self._send(message)

    def end(self) -> None:
        """Report the request, even if its answer is not complete."""
        if self._notes.error is None and not self._complete:
            note_error(self._scope, InternalError.__name__, InternalError.status)
        self._report()

    def _report(self) -> None:
        if self._complete:
            return
        self._complete = True
        try:
            self._middleware.observe(self._observation())
        except Exception as error:
            log_unexpected(error)  # the answer must not fail because of its observer

    def _observation(self) -> Observation:
        if self._client_left:
            note_error(self._scope, "ClientLeft", CLIENT_LEFT)
        method = self._scope["method"]
        request_id = REQUEST_ID.get()
        assert request_id is not None
        return Observation(
            endpoint=self._endpoint(),
            method=method if method in _METHODS else OTHER,
            status=self._status if self._notes.status is None else self._notes.status,
            duration_ms=round((perf_counter() - self._start) * 1e3, 3),
            request_bytes=self._received,
            response_bytes=self._sent,
            request_id=request_id,
            error=self._notes.error,
            answer=self._notes.describe(),
        )

    def _endpoint(self) -> str:
        """Return the path of the route, with names of parameters in place of their values."""
        if self._scope.get("path_params"):
            return str(self._scope["route"].path_format)
        path = str(self._scope["path"])
        return path if path in self._middleware.endpoints else OTHER
