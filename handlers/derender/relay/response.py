"""The client's side of a relayed stream: events as they come, and no faster than they are read."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from anyio import EndOfStream, create_memory_object_stream, create_task_group, move_on_after
from starlette.responses import Response

from derender.http.observing import note_fault
from derender.http.sse import EVENT_STREAM, KEEP_ALIVE, STREAM_HEADERS, event
from derender.protocol.envelope import error_response

from .concurrency import fault_in, while_connected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from starlette.types import Receive, Scope, Send

    from derender.errors import DerenderError

    Emit = Callable[[bytes], Awaitable[None]]

__all__ = ["EventStreamResponse", "Source"]


class Source(Protocol):
    """Where the events of a response come from."""

    async def produce(self, emit: Emit) -> None:
        """Make all events.

        Args:
            emit: Sends one, when the client has read those before.

        Raises:
            DerenderError: There will be no more.
        """

    def left(self) -> Iterable[bytes]:
        """The events that are still to be sent where making them has failed."""


class EventStreamResponse(Response):
    """Sends what a source produces. Where that fails before anything was sent, the response is the error."""

    def __init__(self, source: Source, keep_alive: float) -> None:
        """Begin nothing yet.

        Args:
            source: Makes the events.
            keep_alive: Seconds of silence after which a comment is sent.
        """
        self.status_code = HTTPStatus.OK
        self.media_type = EVENT_STREAM
        self.background = None
        self.init_headers(STREAM_HEADERS)
        self._source = source
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response (ASGI)."""
        await while_connected(receive, lambda: self._respond(scope, send))

    async def _respond(self, scope: Scope, send: Send) -> None:
        started = False
        fault: DerenderError | None = None
        # Nothing is kept in it: who sends waits until it is received.
        sender, receiver = create_memory_object_stream["bytes | DerenderError"](0)
        async with create_task_group() as tasks, receiver:
            tasks.start_soon(self._produce, sender)
            while fault is None:
                try:
                    item = await self._next(receiver)
                except EndOfStream:
                    break
                if not isinstance(item, bytes):
                    fault = item
                    break
                if not started:
                    started = True
                    await self._start(send)
                await _send_body(send, item)
            tasks.cancel_scope.cancel()
        if fault is not None:
            if not started:
                raise fault
            note_fault(scope, fault)
            for content in (*self._source.left(), event(error_response(fault))):
                await _send_body(send, content)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _produce(self, sender: MemoryObjectSendStream[bytes | DerenderError]) -> None:
        async with sender:
            fault = await fault_in(lambda: self._source.produce(sender.send))
            if fault is not None:
                await sender.send(fault)

    async def _next(self, receiver: MemoryObjectReceiveStream[bytes | DerenderError]) -> bytes | DerenderError:
        with move_on_after(self._keep_alive):
            return await receiver.receive()
        return KEEP_ALIVE

    async def _start(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})


async def _send_body(send: Send, content: bytes) -> None:
    await send({"type": "http.response.body", "body": content, "more_body": True})
