"""Requests followed to the end of their answers, and observed."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders

from derender.errors import DerenderError, InternalError
from derender.telemetry.faults import log_unexpected
from derender.telemetry.observation import CLIENT_LEFT, OTHER, AnswerFacts, Observation
from derender.telemetry.request_ids import HEADER, REQUEST_ID, choose_request_id

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from derender.telemetry.observation import Observe

__all__ = ["follow", "is_observed", "note", "note_error", "note_fault"]

_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_NOTES: Final = "derender.notes"


def follow(app: ASGIApp, *, endpoints: Container[str], observe: Observe | None) -> ASGIApp:
    """An application whose requests have an id, which is in each answer, and are observed.

    Args:
        app: The application.
        endpoints: The paths that it answers.
        observe: Told of each request, once, when its answer is complete, or the client gone. Without one
            nothing is gathered.
    """

    async def following(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request_id = choose_request_id(Headers(scope=scope).get(HEADER))
        before = REQUEST_ID.set(request_id)
        try:
            if observe is None:
                await app(scope, receive, _naming(send, request_id))
            else:
                watch = _Watch(scope, receive, _naming(send, request_id), endpoints, observe, request_id)
                await watch.run(app)
        finally:
            REQUEST_ID.reset(before)

    return following


def is_observed(scope: Scope) -> bool:
    """Whether anybody is told of a request."""
    return _NOTES in scope


def note(scope: Scope, describe: Callable[[], AnswerFacts]) -> None:
    """Note how to describe the answer, in place of what was noted before.

    Args:
        scope: The scope of the request.
        describe: Called once the answer is complete.
    """
    if _NOTES in scope:
        scope[_NOTES].describe = describe


def note_error(scope: Scope, kind: str, status: int | None = None) -> None:
    """Note the kind of error that the answer ends with, and its status if that is not the response's."""
    if _NOTES in scope:
        scope[_NOTES].error = kind
        scope[_NOTES].status = status


def note_fault(scope: Scope, fault: DerenderError) -> None:
    """Note the fault that the answer ends with."""
    note_error(scope, type(fault).__name__, fault.status)


def _naming(send: Send, request_id: str) -> Send:
    async def naming(message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            MutableHeaders(scope=message)[HEADER] = request_id
        await send(message)

    return naming


@dataclass
class _Notes:
    """What is noted about a request while it is answered."""

    describe: Callable[[], AnswerFacts] = AnswerFacts
    status: int | None = None
    error: str | None = None


class _Watch:
    """One request, watched until its answer is complete."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        endpoints: Container[str],
        observe: Observe,
        request_id: str,
    ) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._endpoints, self._observe, self._request_id = endpoints, observe, request_id
        self._begin = perf_counter()
        self._status = int(InternalError.status)  # of an answer that never begins
        self._received = self._sent = 0
        self._left = self._done = False
        self._notes = scope[_NOTES] = _Notes()

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(self._scope, self._receiving, self._sending)
        except BaseException as error:
            fault = error if isinstance(error, DerenderError) else InternalError("")
            note_fault(self._scope, fault)
            raise
        finally:
            self._complete()

    async def _receiving(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
        elif not self._done:
            self._left = True
        return message

    async def _sending(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        else:
            self._sent += len(message.get("body", b""))
            if not message.get("more_body", False):
                # Before the last byte is sent: after it, Lambda may stop the process.
                self._complete()
        await self._send(message)

    def _complete(self) -> None:
        if not self._done:
            self._done = True
            try:
                self._observe(self._observation())
            except Exception as error:
                log_unexpected(error)  # nobody else's concern: the request is answered

    def _observation(self) -> Observation:
        if self._left:
            note_error(self._scope, "ClientLeft", CLIENT_LEFT)
        path, method = self._scope["path"], self._scope["method"]
        return Observation(
            endpoint=path if path in self._endpoints else OTHER,
            method=method if method in _METHODS else OTHER,
            status=self._status if self._notes.status is None else self._notes.status,
            seconds=perf_counter() - self._begin,
            request_bytes=self._received,
            response_bytes=self._sent,
            request_id=self._request_id,
            error=self._notes.error,
            answer=self._notes.describe(),
        )
