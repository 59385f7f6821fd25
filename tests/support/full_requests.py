"""Derender requests that have every field, and requests that differ from them in one place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from .api_client import CHAT, COMPLETIONS
from .json_mutations import replaced
from .vocabularies import B

if TYPE_CHECKING:
    from .api_client import Client
    from .json_mutations import Place

__all__ = ["ASKED", "CHOICE", "ENTRY", "FULL", "GENERATED", "PATHS", "bad_request", "both", "splice", "within"]

HELLO, WORLD, BANG, EOS = int(B.HELLO), int(B.WORLD), int(B.BANG), int(B.EOS)
PATHS: Final = (CHAT, COMPLETIONS)
both = pytest.mark.parametrize("path", PATHS)

RESPONSE: Final[dict[str, Any]] = {
    "request_id": "gen-1",
    "model": "of-the-engine",
    "created": 1,
    "usage": {"prompt_tokens": 3},
    "choices": [
        {
            "index": 0,
            "token_ids": [HELLO, WORLD, EOS],
            "finish_reason": "stop",
            "stop_reason": None,
            "logprobs": {
                "content": [
                    {
                        "token_id": HELLO,
                        "logprob": -0.5,
                        "rank": 1,
                        "top_logprobs": [{"token_id": HELLO, "logprob": -0.5, "rank": 1}],
                    },
                    {
                        "token": f"token_id:{WORLD}",
                        "logprob": -0.5,
                        "bytes": [1],
                        "top_logprobs": [{"token": "given", "logprob": -0.5, "bytes": None}],
                    },
                ]
            },
            "routed_experts": "abc",
            "weight_versions": [1],
        }
    ],
    "prompt_token_ids": [HELLO, BANG],
    "prompt_logprobs": [None, {str(BANG): {"logprob": -1.0, "rank": 1, "decoded_token": None}}],
    "kv_transfer_params": {"a": [1]},
    "ec_transfer_params": None,
    "metrics": {"b": 1.5},
    "output_mode": "tokens",
}
CLIENT: Final[dict[str, Any]] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "hi"}],
    "skip_special_tokens": True,
    "spaces_between_special_tokens": True,
    "stop": ["END"],
    "stop_token_ids": [5],
    "include_stop_str_in_output": False,
    "ignore_eos": False,
    "min_tokens": 1,
    "logprob_token_ids": [7],
    "return_token_ids": True,
    "return_tokens_as_token_ids": False,
}
FULL: Final[dict[str, dict[str, Any]]] = {
    CHAT: {
        "stream": False,
        "model": "tiny",
        "generate_response": RESPONSE,
        "prompt_tokens": 2,
        "prompt_token_ids": [HELLO],
        "chat_request": {**CLIENT, "logprobs": True, "top_logprobs": 2},
    },
    COMPLETIONS: {
        "stream": False,
        "model": "tiny",
        "generate_responses": [RESPONSE],
        "prompt_tokens": [2],
        "prompt_token_ids": [[HELLO]],
        "completion_request": {**CLIENT, "logprobs": 2, "prompt": "Hello!", "echo": False, "max_tokens": 3},
    },
}
"""Requests with every field, by path."""

GENERATED: Final[dict[str, Place]] = {CHAT: ("generate_response",), COMPLETIONS: ("generate_responses", 0)}
ASKED: Final[dict[str, str]] = {CHAT: "chat_request", COMPLETIONS: "completion_request"}
CHOICE: Final[Place] = ("choices", 0)
ENTRY: Final[Place] = (*CHOICE, "logprobs", "content", 0)


def within(path: str, place: Place, value: Any) -> dict[str, Any]:
    """Return the full request with another value at a place in its generate response."""
    body: dict[str, Any] = replaced(FULL[path], (*GENERATED[path], *place), value)
    return body


def bad_request(client: Client, path: str, body: Any) -> dict[str, Any]:
    """Return the error of a request that must be a 400."""
    answer = client.post(path, body)
    assert answer.status == 400, answer.body
    assert answer.headers["content-type"] == "application/json"
    error: dict[str, Any] = answer.error
    assert error["type"] in ("BadRequestError", "Bad Request")
    return error


def splice(path: str, place: Place, text: str | bytes) -> bytes:
    """Return the full request with JSON text, well formed or not, at a place."""
    new = text if isinstance(text, bytes) else text.encode()
    return json.dumps(replaced(FULL[path], place, "@@")).encode().replace(b'"@@"', new, 1)
