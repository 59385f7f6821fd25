"""Answers that would be too large are refused before they are made."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.answers import completions
from derender.http.app import create_app
from tests.support.api_client import CHAT, COMPLETIONS, Client, generated
from tests.support.full_requests import ASKED
from tests.support.models import alone, served
from tests.support.vocabularies import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator


LONG, CONTROL, SHORT = 0, 1, 2
LENGTH: Final = 120
BOUND: Final = 1 << 20
TIMES: Final = 12_000
"""Ids whose texts are larger than the bound."""


@pytest.fixture(scope="module")
def client() -> Client:
    """Serve ids with texts of 120 bytes, with a bound of a megabyte for answers."""
    pieces = [b" " * LENGTH, b"\x01" * LENGTH, b"x"]
    model = served(vocabulary(pieces), max_model_len=100_000, max_sequences=4096, max_answer_bytes=BOUND)
    return Client(create_app(alone(model), max_body_bytes=BOUND))


def entries(token_id: int, count: int) -> dict[str, Any]:
    return {"content": [{"token_id": token_id, "logprob": 0}] * count}


def responses() -> Iterator[Any]:
    """Yield requests that are answered with more than a megabyte, and ones of nearly the same size that fit."""
    for name, token_id, fits in (("text", LONG, TIMES // 2), ("escaped text", CONTROL, TIMES // 9)):
        yield pytest.param(generated([token_id] * TIMES), generated([token_id] * fits), {}, id=name)
    yield pytest.param(
        generated([SHORT], logprobs=entries(LONG, 2500)),
        generated([SHORT], logprobs=entries(SHORT, 2500)),
        {},
        id="logprobs",
    )
    yield pytest.param(
        {**generated([SHORT]), "choices": [{"index": n, "token_ids": [SHORT]} for n in range(2100)]},
        {**generated([SHORT]), "choices": [{"index": n, "token_ids": [SHORT]} for n in range(1900)]},
        {},
        id="choices",
    )
    positions = [{str(LONG): {"logprob": 0, "decoded_token": None}}]
    many = [{"index": n, "token_ids": [SHORT]} for n in range(20)]
    yield pytest.param(
        {**generated([SHORT]), "choices": many, "prompt_logprobs": positions * 1000},
        {**generated([SHORT]), "choices": many[:1], "prompt_logprobs": positions * 1000},
        {},
        id="prompt logprobs",
    )


def ask(client: Client, path: str, response: Any, asked: dict[str, Any]) -> Any:
    name = "generate_response" if path == CHAT else "generate_responses"
    return client.post(path, {name: response if path == CHAT else [response], ASKED[path]: asked})


@pytest.mark.parametrize(("large", "fitting", "asked"), [*responses()])
def test_an_answer_that_would_be_too_large_is_refused(
    client: Client, large: Any, fitting: Any, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(client, COMPLETIONS, fitting, asked).status == 200
    monkeypatch.setattr(completions, "decode_choices", None)  # nothing is decoded
    answer = ask(client, COMPLETIONS, large, asked)
    assert (answer.status, answer.error["type"]) == (413, "ResponseTooLargeError")
    assert str(BOUND) in answer.error["message"]
    assert "DERENDER_MAX_ANSWER_BYTES" in answer.error["message"]


def test_a_chat_answer_that_would_be_too_large_is_refused(client: Client) -> None:
    assert ask(client, CHAT, generated([LONG] * (TIMES // 2)), {}).status == 200
    assert ask(client, CHAT, generated([LONG] * TIMES), {}).status == 413


def test_the_echo_of_a_prompt_counts_for_each_choice(client: Client) -> None:
    def post(choices: int, prompt: str) -> int:
        chunks = [{"choices": [{"index": index, "token_ids": [SHORT]}]} for index in range(choices)]
        asked = {"echo": True, "prompt": prompt}
        body = {"stream": True, "generate_chunks": chunks, "completion_request": asked}
        return client.post(COMPLETIONS, body).status

    assert post(100, "p" * 9_000) == 200
    assert post(200, "p" * 9_000) == 413


def test_the_memory_of_an_answer_that_is_refused_is_that_of_its_request(client: Client) -> None:
    count = 60_000
    body = {"generate_response": generated([LONG] * count)}
    client.post(CHAT, body)
    tracemalloc.start()
    try:
        assert client.post(CHAT, body).status == 413
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < count * LENGTH
