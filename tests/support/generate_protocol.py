"""Requests to generate servers and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .qwen3 import PROMPT

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["chunks_of", "generate_request", "response_of", "usage"]


def chunks_of(
    token_ids: Sequence[int],
    *,
    index: int = 0,
    size: int = 1,
    finish_reason: str | None = "stop",
    request_id: str | None = "generate-1",
) -> list[dict[str, Any]]:
    """Return the generate chunks of a choice."""
    chunks = []
    for begin in range(0, len(token_ids), size):
        last = begin + size >= len(token_ids)
        choice = {
            "index": index,
            "token_ids": list(token_ids[begin : begin + size]),
            "finish_reason": finish_reason if last else None,
        }
        chunks.append({"request_id": request_id, "choices": [choice]})
    return chunks


def usage(prompt: int, generated: int) -> dict[str, Any]:
    """Return the chunk with the usage."""
    counted = {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}
    return {"request_id": "generate-1", "choices": [], "usage": counted}


def response_of(*outputs: Sequence[int], finish_reason: str = "stop") -> dict[str, Any]:
    """Return a generate response."""
    choices = [
        {"index": index, "token_ids": list(token_ids), "finish_reason": finish_reason}
        for index, token_ids in enumerate(outputs)
    ]
    return {"request_id": "generate-1", "choices": choices}


def generate_request(**fields: Any) -> dict[str, Any]:
    """Return a generate request, as a render service makes it."""
    return {
        "request_id": "chatcmpl-1",
        "token_ids": PROMPT,
        "sampling_params": {"max_tokens": 100, "temperature": 0.5},
        "model": "m",
        **fields,
    }
