"""Streams of completions that begin with their prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.api_client import COMPLETIONS
from tests.support.streams import added_up, at_once, groups, one_by_one, whole
from tests.support.vocabularies import B

from .support import Local, chunk

if TYPE_CHECKING:
    from derender.models.model import ServedModel

HELLO, WORLD, BANG, EOS, PAD = map(int, (B.HELLO, B.WORLD, B.BANG, B.EOS, B.PAD))
PROMPT: Final = [PAD, HELLO]


def begin(model: ServedModel, client: dict[str, Any], **request: Any) -> tuple[int, Any]:
    """Post the first chunk of a stream."""
    body = {"stream": True, "generate_chunk": chunk([WORLD]), "completion_request": client, **request}
    return Local(model).post(COMPLETIONS, body)


@pytest.mark.parametrize("client", [{}, {"prompt": "Say:"}, {"prompt": [PROMPT]}, {"max_tokens": 0}], ids=str)
@pytest.mark.parametrize("sizes", [[1, 1, 1], [0, 2, 1], [3], [3, 0]], ids=str)
def test_the_chunks_add_up_to_the_complete_answer(
    tiny: ServedModel, client: dict[str, Any], sizes: list[int]
) -> None:
    local, asked = Local(tiny), {"echo": True, "return_token_ids": True, **client}
    choice = {"index": 0, "token_ids": [WORLD, BANG, EOS], "finish_reason": "stop"}
    response = {"request_id": "gen-1", "choices": [choice]}
    body = {"completion_request": asked, "generate_responses": [response], "prompt_token_ids": [PROMPT]}
    expected = whole(local.post(COMPLETIONS, body)[1])
    request = {"completion_request": asked, "prompt_token_ids": PROMPT}
    chunks = groups([response], sizes)
    assert added_up(one_by_one(local.post, COMPLETIONS, request, chunks)) == expected
    assert added_up(at_once(local.post, COMPLETIONS, request, chunks, 2)) == expected


def test_each_choice_begins_with_the_prompt(tiny: ServedModel) -> None:
    chunks = [chunk([token_id], index=index) for index in (0, 1) for token_id in (WORLD, BANG)]
    request = {"completion_request": {"echo": True}, "prompt_token_ids": PROMPT}
    said = added_up(one_by_one(Local(tiny).post, COMPLETIONS, request, chunks))
    assert [said[index].content for index in (0, 1)] == ["<|pad|>Hello world!"] * 2


def test_the_prompt_is_needed_only_where_a_choice_begins(tiny: ServedModel) -> None:
    client = {"echo": True}
    _, begun = begin(tiny, client, prompt_token_ids=PROMPT)
    assert begun["chunk"]["choices"][0]["text"] == "<|pad|>Hello world"
    state = begun["stream_state"]
    status, _ = begin(tiny, client, stream_state=state)
    assert status == 200
    status, message = begin(tiny, client, stream_state=state, generate_chunk=chunk([WORLD], index=1))
    assert (status, "must have all ids of the prompt" in message) == (400, True)


def test_the_generate_chunk_may_have_the_prompt(tiny: ServedModel) -> None:
    first = {**chunk([WORLD]), "prompt_token_ids": PROMPT}
    status, begun = begin(tiny, {"echo": True}, generate_chunk=first, prompt_tokens=2)
    assert (status, begun["chunk"]["choices"][0]["text"]) == (200, "<|pad|>Hello world")


@pytest.mark.parametrize(
    ("client", "request_"),
    [
        ({}, {}),
        ({}, {"prompt_token_ids": PROMPT, "prompt_tokens": 3}),
        # Nothing says which of the prompts it is.
        ({"prompt": ["one", "two"]}, {}),
    ],
)
def test_a_prompt_that_is_not_known_is_refused(
    tiny: ServedModel, client: dict[str, Any], request_: dict[str, Any]
) -> None:
    status, message = begin(tiny, {"echo": True, **client}, **request_)
    assert (status, "must have all ids of the prompt" in message) == (400, True)


def test_streams_have_no_logprobs_of_the_prompt(tiny: ServedModel) -> None:
    status, message = begin(tiny, {"echo": True, "logprobs": 0}, prompt_token_ids=PROMPT)
    assert (status, "echo with logprobs can't be streamed" in message) == (400, True)
