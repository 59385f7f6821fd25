"""Server-sent events, written (HTML standard, "Server-sent events")."""

from __future__ import annotations

from typing import Final

from derender.protocol.writing import dumps

__all__ = ["DONE", "EVENT_STREAM", "KEEP_ALIVE", "STREAM_HEADERS", "event"]

EVENT_STREAM: Final = "text/event-stream"
STREAM_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""Nothing on the way is to keep a stream, or to wait for more of it."""
DONE: Final = b"data: [DONE]\n\n"
"""What ends a stream of the OpenAI API."""
KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment: clients pass it over, and what is between knows that the stream is not dead."""


def event(content: object, name: str = "") -> bytes:
    """A response as an event.

    Args:
        content: The response.
        name: The event's type, where it is not a message.
    """
    return b"%bdata: %b\n\n" % (f"event: {name}\n".encode() if name else b"", dumps(content))
