"""Streamed responses: events as they come, no faster than the client reads them."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from anyio import move_on_after
from starlette.responses import Response

from derender.http.observation import note_fault
from derender.http.sse import EVENT_STREAM, KEEP_ALIVE, STREAM_HEADERS, encode_event
from derender.protocol.envelope import error_response
from derender.telemetry.faults import client_error

from .channel import Channel
from .tasks import open_task_group, run_while_connected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.types import Receive, Scope, Send

    from derender.errors import DerenderError

    Emit = Callable[[bytes], Awaitable[None]]

__all__ = ["EventSource", "EventStreamResponse"]


class EventSource(Protocol):
    """Produces the events of a response."""

    async def produce(self, emit: Emit) -> None:
        """Produce all events.

        Args:
            emit: Sends events. Returns once those before them have been sent.

        Raises:
            DerenderError: No more events follow.
        """

    def cut(self) -> Iterable[bytes]:
        """Return the events that end the stream after `produce` failed."""


class EventStreamResponse(Response):
    """Sends the events of a source.

    A fault before the first event becomes an error response. A later one becomes the last event. While the
    source is silent, comments keep the connection alive.
    """

    def __init__(self, source: EventSource, keep_alive: float) -> None:
        """Produce nothing yet.

        Args:
            source: Produces the events.
            keep_alive: Seconds of silence before a comment.
        """
        self.status_code = HTTPStatus.OK
        self.media_type = EVENT_STREAM
        self.background = None
        self.init_headers(STREAM_HEADERS)
        self._source = source
        self._keep_alive = keep_alive
        self._fault: DerenderError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response (ASGI)."""
        await run_while_connected(receive, lambda: self._respond(scope, send))

    async def _respond(self, scope: Scope, send: Send) -> None:
        started = False
        channel = Channel()
        async with open_task_group() as tasks:
            tasks.start_soon(self._produce, channel)
            while (content := await self._next(channel)) is not None:
                if not started:
                    started = True
                    await send(
                        {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                    )
                await _send_body(send, content)
        if self._fault is not None:
            if not started:
                raise self._fault
            note_fault(scope, self._fault)
            for content in (*self._source.cut(), encode_event(error_response(self._fault))):
                await _send_body(send, content)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _produce(self, channel: Channel) -> None:
        try:
            await self._source.produce(channel.send)
        except Exception as error:
            # Raising would cancel the event that is being sent.
            self._fault = client_error(error)
        finally:
            channel.close()

    async def _next(self, channel: Channel) -> bytes | None:
        """Wait for the next events. Returns a comment after a silence, and None at the end."""
        with move_on_after(self._keep_alive):
            return await channel.receive()
        return KEEP_ALIVE


async def _send_body(send: Send, content: bytes) -> None:
    await send({"type": "http.response.body", "body": content, "more_body": True})
