"""Logprob entries of both forms, and requests with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.api_client import generated
from tests.support.vocabularies import B

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.api_client import Client

    Form = Callable[[int], dict[str, Any]]

__all__ = [
    "BANG",
    "FORMS",
    "HELLO",
    "INFINITY",
    "WORLD",
    "Form",
    "alternating",
    "by_id",
    "by_placeholder",
    "chat",
    "completion",
    "entries",
    "forms",
]

HELLO, WORLD, BANG = int(B.HELLO), int(B.WORLD), int(B.BANG)
INFINITY: Final = list("∞".encode())


def by_id(token_id: int) -> dict[str, Any]:
    return {"token_id": token_id, "rank": 1}


def by_placeholder(token_id: int) -> dict[str, Any]:
    return {"token": f"token_id:{token_id}", "bytes": None}


def alternating(token_id: int) -> dict[str, Any]:
    return by_id(token_id) if token_id % 2 else by_placeholder(token_id)


FORMS: Final = [by_id, by_placeholder, alternating]
forms = pytest.mark.parametrize("form", FORMS)


def entries(form: Form, rows: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Return entries of ids: the sampled token of each position, then its candidates."""
    return [
        {
            **form(sampled),
            "logprob": -0.25,
            "top_logprobs": [{**form(token_id), "logprob": -0.25 - n / 2} for n, token_id in enumerate(others)],
        }
        for sampled, *others in rows
    ]


def chat(
    client: Client, content: Any, token_ids: Sequence[int] = (HELLO,), **asked: Any
) -> list[dict[str, Any]]:
    body: dict[str, Any] = {"generate_response": generated(list(token_ids), logprobs={"content": content})}
    if asked:
        body["chat_request"] = asked
    answer = client.chat(body)
    assert answer.status == 200, answer.body
    result: list[dict[str, Any]] = answer.choice["logprobs"]["content"]
    return result


def completion(
    client: Client, content: Any, token_ids: Sequence[int] = (HELLO,), **asked: Any
) -> dict[str, Any]:
    body: dict[str, Any] = {"generate_responses": [generated(list(token_ids), logprobs={"content": content})]}
    if asked:
        body["completion_request"] = asked
    answer = client.completions(body)
    assert answer.status == 200, answer.body
    result: dict[str, Any] = answer.choice["logprobs"]
    return result
