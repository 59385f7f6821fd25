"""Streams whose prompts are not known: the layer says whether prompts open the reasoning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.parsing import load_parsers
from derender.vocabulary import GenerationPrompt
from tests.support.deliveries import DELIVERIES, Chat, Delivery

from ..parsing.support import encode, marked_vocabulary, marker_texts

if TYPE_CHECKING:
    from tests.support.streams import Added

OUTPUT: Final = "Let me think.\n</think>\n\nHi"
OPENED: Final = "<|im_start|>assistant\n<think>\n"
CLOSED: Final = f"{OPENED}\n</think>\n\n"

deliveries = pytest.mark.parametrize("delivery", DELIVERIES)


def answer(delivery: Delivery, prompts: dict[bool | None, str], output: str, size: int, **client: Any) -> Added:
    """Answer a request without prompt ids.

    Args:
        delivery: How the answer is delivered.
        prompts: How prompts end with each value of `enable_thinking`; None if it is not set.
        output: The output.
        size: Number of ids in each chunk of a stream.
        client: The client's request.
    """
    markers, special = sorted(marker_texts("hermes", "qwen3")), ("<eos>", "<|im_start|>")
    known = tuple(
        GenerationPrompt(
            tuple(encode(marked_vocabulary(markers, special), prompt)),
            {} if value is None else {"enable_thinking": value},
        )
        for value, prompt in prompts.items()
    )
    vocabulary = marked_vocabulary(markers, special, generation_prompts=known)
    chat = Chat(vocabulary, load_parsers(vocabulary, "hermes", "qwen3"), client, None)
    ids = encode(vocabulary, output)
    if delivery == "whole":
        return chat.whole(ids, "stop").message
    chunks = [ids[begin : begin + size] for begin in range(0, len(ids), size)]
    return chat.streamed(delivery, chunks, "stop").message


@deliveries
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_thoughts_are_no_content_if_prompts_open_the_reasoning(delivery: Delivery, size: int) -> None:
    added = answer(delivery, {None: OPENED}, OUTPUT, size)
    assert (added.reasoning, added.content) == ("Let me think.", "Hi")
    hidden = answer(delivery, {None: OPENED}, OUTPUT, size, include_reasoning=False)
    assert (hidden.reasoning, hidden.content) == ("", "Hi")
    cut = answer(delivery, {None: OPENED}, "Let me", size)
    assert (cut.reasoning, cut.content) == ("Let me", "")


@deliveries
@pytest.mark.parametrize(
    ("client", "thinks"),
    [
        ({}, True),
        ({"chat_template_kwargs": {"enable_thinking": True}}, True),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"chat_template_kwargs": {"enable_thinking": None}}, True),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "low"}, True),
        ({"reasoning_effort": None}, True),
        ({"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}, True),
        ({"reasoning_effort": "none", "chat_template_kwargs": {"thinking": True}}, False),
    ],
)
def test_an_answer_is_content_if_the_client_had_the_prompt_close_the_reasoning(
    delivery: Delivery, client: dict[str, Any], thinks: bool
) -> None:
    added = answer(delivery, {False: CLOSED, True: OPENED, None: OPENED}, "Hi", 1, **client)
    assert (added.reasoning, added.content) == (("Hi", "") if thinks else ("", "Hi"))
