"""Requests to every route of the relay, and an upstream that answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .generate_protocol import chunks_of, generate_request, response_of, usage
from .qwen3 import END
from .relay_client import CHAT, COMPLETIONS, RELAY
from .relay_requests import relay_chat, relay_completion
from .upstream_server import RENDER_CHAT, RENDER_COMPLETIONS, Reply, answer, stream

if TYPE_CHECKING:
    from .upstream_server import ReceivedRequest

__all__ = ["CHUNKS", "OUTPUT", "REQUESTS", "TWO_REQUESTS", "answer_all"]

OUTPUT: Final = [9707, 11, 1879, 0, END]
CHUNKS: Final = [*chunks_of(OUTPUT), usage(9, 5)]
REQUESTS: Final[list[tuple[str, dict[str, Any]]]] = [
    (CHAT + RELAY, relay_chat(model=None)),
    (CHAT + RELAY, relay_chat(model=None, stream=False)),
    (COMPLETIONS + RELAY, relay_completion(model=None)),
    (CHAT, {"messages": [], "stream": False}),
    (COMPLETIONS, {"prompt": "Once", "stream": True}),
]
TWO_REQUESTS: Final = REQUESTS[0], REQUESTS[3]
"""Two requests that together run most of the code."""


def answer_all(received: ReceivedRequest) -> Reply:
    """Answer as a generate server and a render service."""
    if received.path in (RENDER_CHAT, RENDER_COMPLETIONS):
        return answer(generate_request())
    return stream(CHUNKS) if received.body["stream"] else answer(response_of(OUTPUT))
