"""Streams get the peer's answers, step by step, and any split of them adds up to the complete answer.

Only `created`, fields that the peer's chunks lack, and the peer's defects may differ.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from operator import attrgetter
from typing import Any, Final

import pytest

from tests.support.streams import added_up, at_once, groups, one_by_one, whole, whole_response

from .recorded import CHAT, MODES, RECORDED, Mode, Serve, Stream, streams, without, without_bytes

STREAMS: Final = tuple(streams())


def test_all_recorded_streams_are_tested() -> None:
    assert Counter(stream.file for stream in STREAMS) == {file: counts[2] for file, counts in RECORDED.items()}
    assert all(step["status"] == 200 for stream in STREAMS for step in stream.steps)
    assert len({stream.id for stream in STREAMS}) == len(STREAMS) == 336


DEFECTS: Final = {
    # Neither the prompt nor the output opened reasoning. Besides, text that waits for a marker differs.
    "qwen3-hermes": "reasoning",
    # The peer holds text outside Harmony's channels until the output ends. derender shows it as it comes.
    "gptoss-harmony": "content",
}
"""The field that has a file's text in other chunks (chat only). The joined texts are compared."""


def _at_the_end(chunks: list[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """Move the text of all chunks to the content of the last one."""
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    other = "content" if field == "reasoning" else "reasoning"
    assert all(delta[other] is None for delta in deltas)
    text = "".join(delta[field] or "" for delta in deltas)
    moved = [
        {
            **chunk,
            "choices": [
                {**choice, "delta": {"role": choice["delta"]["role"], "content": None, "reasoning": None}}
                for choice in chunk["choices"]
            ],
        }
        for chunk in chunks
    ]
    moved[-1]["choices"][-1]["delta"]["content"] = text
    return moved


@pytest.mark.parametrize(
    ("stream", "mode"),
    list(product(STREAMS, MODES)),
    ids=[f"{stream.id}/{mode}" for stream, mode in product(STREAMS, MODES)],
)
def test_answers_are_the_peers(stream: Stream, mode: Mode, serve: Serve) -> None:
    ours = one_by_one(serve(stream.file, mode).exchange, stream.path, stream.request, stream.chunks)
    theirs = [step["response"] for step in stream.steps]
    if stream.path == CHAT and stream.file in DEFECTS:
        ours, theirs = _at_the_end(ours, "content"), _at_the_end(theirs, DEFECTS[stream.file])
    if mode == "exact":
        # The peer returns the bytes of the string, which are empty inside a character.
        ours, theirs = without_bytes(ours), without_bytes(theirs)
    assert [_comparable(chunk) for chunk in ours] == [_comparable(chunk) for chunk in theirs]


def _comparable(chunk: dict[str, Any]) -> dict[str, Any]:
    assert chunk.get("ec_transfer_params") is None
    assert all(choice.get("routed_experts") is None for choice in chunk["choices"])
    choices = [without(choice, "routed_experts") for choice in chunk["choices"]]
    # Only derender counts the tokens of the reasoning.
    usage = chunk.get("usage") and without(chunk["usage"], "completion_tokens_details")
    return {**without(chunk, "created", "ec_transfer_params"), "usage": usage, "choices": choices}


@pytest.mark.parametrize("stream", STREAMS, ids=attrgetter("id"))
def test_any_split_of_a_recorded_stream_adds_up_to_the_complete_answer(stream: Stream, serve: Serve) -> None:
    post = serve(stream.file, "exact").exchange
    prompt = stream.request["prompt_token_ids"]
    response = whole_response(stream.chunks)
    complete = (
        {"generate_response": response, "prompt_token_ids": prompt}
        if stream.path == CHAT
        else {"generate_responses": [response], "prompt_token_ids": [prompt]}
    )
    status, answer = post(stream.path, {**stream.request, **complete})
    assert status == 200
    expected = whole(answer)

    rng = random.Random(stream.id)
    length = len(response["choices"][0]["token_ids"])
    for sizes in ([], [1] * length, [rng.randint(0, 5) for _ in range(rng.randint(1, length))], [length, 0]):
        chunks = groups(stream.chunks, sizes)
        assert added_up(one_by_one(post, stream.path, stream.request, chunks)) == expected
        assert added_up(at_once(post, stream.path, stream.request, chunks, rng.randint(1, 8))) == expected
