"""Input lines of batches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CHAT", "COMPLETIONS", "END", "HELLO", "chat", "completion", "generated", "line", "lines"]

CHAT: Final = "/v1/chat/completions/derender"
COMPLETIONS: Final = "/v1/completions/derender"
HELLO: Final = [9707, 11, 1879, 0]
"""`Hello, world!`"""
END: Final = 151_645


def generated(token_ids: Sequence[int] = (*HELLO, END), **fields: object) -> dict[str, Any]:
    """Return a generate response of one choice."""
    choice = {"index": 0, "token_ids": [*token_ids], "finish_reason": "stop"}
    return {"request_id": "gen-1", "choices": [choice], **fields}


def chat(response: object = None, **fields: object) -> dict[str, Any]:
    """Return the body of a chat request."""
    messages = [{"role": "user", "content": "Say hello"}]
    return {
        "generate_response": generated() if response is None else response,
        "prompt_tokens": 7,
        "chat_request": {"messages": messages},
        **fields,
    }


def completion(*responses: object) -> dict[str, Any]:
    """Return the body of a completions request."""
    return {"generate_responses": [*responses], "completion_request": {"prompt": "Hello"}}


def line(custom_id: object = "a", body: object = None, url: str = CHAT, **fields: object) -> bytes:
    """Return an input line with its newline."""
    body = chat() if body is None else body
    return (
        json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body, **fields}).encode()
        + b"\n"
    )


def lines(count: int) -> list[bytes]:
    """Return good lines of equal length."""
    return [line(f"line-{number:05}") for number in range(count)]
