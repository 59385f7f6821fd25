"""Server-sent events, as the HTML standard defines them."""

from __future__ import annotations

from typing import Final

from derender.protocol.writing import dumps

__all__ = ["DONE", "EVENT_STREAM", "KEEP_ALIVE", "STREAM_HEADERS", "encode_event"]

EVENT_STREAM: Final = "text/event-stream"
STREAM_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""Proxies must neither cache nor buffer a stream."""
DONE: Final = b"data: [DONE]\n\n"
"""The event that ends a stream of the OpenAI API."""
KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment. Clients ignore it; proxies see that the connection is in use."""


def encode_event(content: object, name: str = "") -> bytes:
    """Encode an event.

    Args:
        content: The data, which becomes JSON.
        name: The type of the event; empty for `message`.
    """
    return b"%bdata: %b\n\n" % (f"event: {name}\n".encode() if name else b"", dumps(content))
