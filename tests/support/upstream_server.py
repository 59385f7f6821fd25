"""A generate server and a render service that answer as a test says, and break as it says.

They list their models and know no others. The generate server has no tokenizer, and refuses what it can't do
without one.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from examples.generate_server import HttpServer, Request, Response

from .vllm_answers import find_refusal, list_models
from .waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

__all__ = [
    "DONE",
    "GENERATE",
    "MODELS",
    "RENDER_CHAT",
    "RENDER_COMPLETIONS",
    "Part",
    "ReceivedRequest",
    "Reply",
    "Upstream",
    "UpstreamServer",
    "answer",
    "break_off",
    "hang",
    "meet",
    "pause",
    "send_parts",
    "sse",
    "stream",
]

GENERATE: Final = "/inference/v1/generate"
MODELS: Final = "/v1/models"
RENDER_CHAT: Final = "/v1/chat/completions/render"
RENDER_COMPLETIONS: Final = "/v1/completions/render"
DONE: Final = b"data: [DONE]\n\n"

Step = Callable[[], Awaitable[None]]
"""Something that happens before the server goes on."""
Part = bytes | Step


async def hang() -> None:
    """Send nothing more, until the client disconnects."""
    await asyncio.Event().wait()


async def break_off() -> None:
    """Lose the connection."""
    await asyncio.sleep(0.02)  # what was sent arrives before
    raise ConnectionAbortedError


def pause(seconds: float) -> Step:
    """Send nothing for some time."""
    return lambda: asyncio.sleep(seconds)


def meet(count: int) -> Step:
    """Send nothing more until this many responses have come to this part."""
    barrier = asyncio.Barrier(count)

    async def wait() -> None:
        await barrier.wait()

    return wait


@dataclass(frozen=True)
class Reply:
    """A response, in parts."""

    parts: Iterable[Part]
    status: int = 200
    content_type: str = "text/event-stream"
    headers: Sequence[tuple[str, str]] = ()
    before: Sequence[Step] = ()
    """What happens before the status is sent."""


def stream(chunks: Iterable[object], *, done: bool = True) -> Reply:
    """Stream chunks as a generate server does."""
    return Reply([*map(sse, chunks), *([DONE] if done else [])])


def answer(content: object, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Reply:
    """Answer with JSON."""
    return Reply([json.dumps(content).encode()], status, "application/json", headers)


def sse(content: object) -> bytes:
    """Write a server-sent event."""
    return b"data: %b\n\n" % json.dumps(content).encode()


@dataclass
class ReceivedRequest:
    """A request that the server received, and what became of the response."""

    request: Request
    sent: int = 0
    """Bytes of the response's body that the connection has taken."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when the client disconnects before the end of the response."""

    @property
    def path(self) -> str:
        """The path."""
        return self.request.path

    @property
    def headers(self) -> Any:
        """The headers; names are in lower case."""
        return self.request.headers

    @property
    def content(self) -> bytes:
        """The body."""
        return self.request.content

    @property
    def body(self) -> Any:
        """The JSON body."""
        return self.request.body


class Upstream:
    """Answers requests with what `respond` returns, unless it refuses them, and remembers them.

    Attributes:
        requests: The requests so far, but those to list models.
        listings: The requests to list models.
        respond: Returns the reply to a request.
        models: The models.
        has_tokenizer: Whether the generate server has a tokenizer.
        list_models: Returns the reply to a request to list models.
    """

    def __init__(self) -> None:
        self.respond: Callable[[ReceivedRequest], Reply] = lambda _: answer({}, 500)
        self.forget()

    def forget(self) -> None:
        """Forget the requests of other tests, and serve the usual model without a tokenizer."""
        self.requests: list[ReceivedRequest] = []
        self.listings: list[ReceivedRequest] = []
        self.models: Sequence[str] = ["m"]
        self.has_tokenizer = False
        self.list_models: Callable[[], Reply] = lambda: answer(list_models(self.models))

    def replies(self, *replies: Reply) -> None:
        """Answer with these, one after the other, and then with the last."""
        left = list(replies)
        self.respond = lambda _: left.pop(0) if len(left) > 1 else left[0]

    def receive(self, request: Request) -> tuple[ReceivedRequest, Reply]:
        """Remember a request, and return the reply to it."""
        received = ReceivedRequest(request)
        if received.path.endswith(MODELS):
            self.listings.append(received)
            return received, self.list_models()
        tokens_only = received.path.endswith(GENERATE) and not self.has_tokenizer
        refusal = find_refusal(received.body, self.models, tokens_only=tokens_only)
        reply = self.respond(received) if refusal is None else answer(refusal, refusal["error"]["code"])
        self.requests.append(received)
        return received, reply


class UpstreamServer(Upstream, HttpServer):
    """An upstream on this machine."""

    def __init__(self) -> None:
        Upstream.__init__(self)
        HttpServer.__init__(self, self._answer_request)
        # With small buffers, a test sees how much the relay reads ahead.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)

    def wait_for(self, count: int) -> list[ReceivedRequest]:
        """Wait until the server has received this many requests, and return them."""
        wait_until(lambda: len(self.requests) >= count)
        return self.requests

    async def _answer_request(self, request: Request) -> Response:
        received, reply = self.receive(request)
        try:
            for step in reply.before:
                await step()
        except asyncio.CancelledError:
            received.cancelled.set()
            raise
        headers = (("content-type", reply.content_type), *reply.headers)
        return Response(send_parts(reply, received), reply.status, headers)


async def send_parts(reply: Reply, received: ReceivedRequest) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a reply, and do what it says between them."""
    try:
        for part in reply.parts:
            if isinstance(part, bytes):
                yield part
                received.sent += len(part)
            else:
                await part()
    except (asyncio.CancelledError, GeneratorExit):
        received.cancelled.set()
        raise
