"""What an operator may know of a request: how it went, how much it was, and nothing of what was generated."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypedDict

from starlette.datastructures import Headers, MutableHeaders

from .errors import DerenderError, InternalError, unexpected
from .request_ids import HEADER, REQUEST_ID, choose_request_id

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    Observe = Callable[["Observation"], None]

__all__ = [
    "CLIENT_LEFT",
    "OTHER",
    "Facts",
    "Observation",
    "follow",
    "is_observed",
    "note",
    "note_fault",
]

OTHER: Final = "other"
"""A path or a method that there is not: clients can write anything there."""
CLIENT_LEFT: Final = 499
"""Status of a request whose client went away before the answer's end. Nobody sees it; the number is nginx's."""
_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_FACTS: Final = "derender.facts"


class Facts(TypedDict, total=False):
    """What is known of an answer where it is made. The fields are those of `Observation`."""

    status: int
    error: str
    completion_id: str | None
    model: str
    streamed: bool
    prompt_tokens: int
    completion_tokens: int
    choices: int
    candidates: int
    parsers: tuple[str, ...]
    outcomes: Mapping[str, int]
    state_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A request and its answer, once that is complete.

    No field holds anything that a client or a model wrote, but for two ids, which are of harmless form.
    """

    endpoint: str
    """The route; `OTHER` for a path that is none."""
    method: str
    """The HTTP method; `OTHER` for one that HTTP does not have."""
    status: int
    """The HTTP status. Of a stream that breaks off it is the fault's; `CLIENT_LEFT` where nobody waited."""
    seconds: float
    """From the request's first byte to the answer's last."""
    request_bytes: int
    """Bytes of the body, as they were sent."""
    response_bytes: int
    """Bytes of the answer's body, as they are sent."""
    request_id: str
    error: str | None = None
    """The kind of error: the name of a class of `derender.errors`, of an HTTP status, or `ClientLeft`."""
    completion_id: str | None = None
    """The answer's own id, where it is of harmless form."""
    model: str | None = None
    """The name that the model is served under."""
    streamed: bool = False
    """Whether the answer is a stream, or a part of one."""
    prompt_tokens: int = 0
    """Of a stream in several requests, they are those of the first."""
    completion_tokens: int = 0
    choices: int = 0
    """Choices that have ended."""
    candidates: int = 0
    """Logprob candidates that came."""
    parsers: tuple[str, ...] = ()
    """Names of the parsers that the answer went through."""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """What they made of it: `derender.facts.Outcome` → how many."""
    state_bytes: int = 0
    """Length of the stream's state."""


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
    return _FACTS in scope


def note(scope: Scope, facts: Callable[[], Facts]) -> None:
    """Say more of a request, where anybody is told of it.

    Args:
        scope: The request's.
        facts: Says it, when the answer is complete. Where several say the same, the last is right.
    """
    if _FACTS in scope:
        scope[_FACTS].append(facts)


def note_fault(scope: Scope, fault: DerenderError) -> None:
    """Say what a request's answer ends with."""
    note(scope, lambda: Facts(status=fault.status, error=type(fault).__name__))


def _naming(send: Send, request_id: str) -> Send:
    async def naming(message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            MutableHeaders(scope=message)[HEADER] = request_id
        await send(message)

    return naming


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
        self._facts: list[Callable[[], Facts]] = []
        scope[_FACTS] = self._facts

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
                unexpected(error)  # nobody else's concern: the request is answered

    def _observation(self) -> Observation:
        facts = Facts(status=self._status)
        for each in self._facts:
            facts |= each()
        if self._left:
            facts |= Facts(status=CLIENT_LEFT, error="ClientLeft")
        path, method = self._scope["path"], self._scope["method"]
        return Observation(
            endpoint=path if path in self._endpoints else OTHER,
            method=method if method in _METHODS else OTHER,
            seconds=perf_counter() - self._begin,
            request_bytes=self._received,
            response_bytes=self._sent,
            request_id=self._request_id,
            **facts,
        )
