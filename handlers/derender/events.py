"""Server-sent events, written (HTML standard, "Server-sent events")."""

from __future__ import annotations

from typing import Final

import orjson

__all__ = ["DONE", "EVENT_STREAM", "KEEP_ALIVE", "STREAM_HEADERS", "dumps", "event"]

EVENT_STREAM: Final = "text/event-stream"
STREAM_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""Nothing on the way is to keep a stream, or to wait for more of it."""
DONE: Final = b"data: [DONE]\n\n"
"""What ends a stream of the OpenAI API."""
KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment: clients pass it over, and what is between knows that the stream is not dead."""


def dumps(content: object) -> bytes:
    """A response as JSON. Models are written from their fields as they are; logprobs are JSON already."""
    return orjson.dumps(content, default=vars)


def event(content: object, name: str = "") -> bytes:
    """A response as an event.

    Args:
        content: The response.
        name: The event's type, where it is not a message.
    """
    return b"%bdata: %b\n\n" % (f"event: {name}\n".encode() if name else b"", dumps(content))
