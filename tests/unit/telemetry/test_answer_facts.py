"""Facts about answers: the same for a whole answer and for the parts of a stream."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from derender.endpoints import CHAT, COMPLETIONS, Answer, answer
from derender.models.layer import load_models
from derender.protocol.openai.completions import TextCompletionChunk
from derender.settings import Settings
from derender.telemetry.answer_facts import describe_answer, find_outcomes
from derender.telemetry.observation import AnswerFacts
from derender.telemetry.tally import NOTHING, Tally
from tests.support.qwen3_outputs import CALL, OUTPUTS, TOOLS, Output, encode, generated

if TYPE_CHECKING:
    from derender.endpoints import Endpoint
    from derender.models.model import Models

each_output = pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)


@cache
def models(**settings: str) -> Models:
    return load_models(
        Settings.from_environment({f"DERENDER_{name.upper()}": text for name, text in settings.items()})
    )


def ask(endpoint: Endpoint, body: object, **settings: str) -> Answer:
    return answer(endpoint, models(**settings), json.dumps(body).encode(), 0)


def describe(endpoint: Endpoint, body: object, **settings: str) -> AnswerFacts:
    return describe_answer(ask(endpoint, body, **settings))


def test_a_chat_completion() -> None:
    entry = {"token_id": 9707, "logprob": -1.0, "top_logprobs": [{"token_id": 9707, "logprob": -1.0}] * 3}
    token_ids = encode("one")
    response = generated(token_ids, token_ids, logprobs={"content": [entry] * len(token_ids)})
    body = {"generate_response": response, "prompt_tokens": 7, "chat_request": {"logprobs": True}}
    assert describe(CHAT, body) == AnswerFacts(
        completion_id="generate-1",
        model="Qwen3",
        parsers=("hermes", "qwen3"),
        tally=Tally(
            prompt_tokens=7,
            completion_tokens=2 * len(token_ids),
            choices=2,
            candidates=2 * 3 * len(token_ids),
            outcomes={"text": 2},
        ),
    )


def test_a_text_completion_has_no_parsers() -> None:
    outputs = [encode("one"), encode("one two"), encode("three")]
    responses = [generated(outputs[0]), generated(*outputs[1:])]
    assert describe(COMPLETIONS, {"generate_responses": responses, "prompt_tokens": [3, 4]}) == AnswerFacts(
        completion_id="generate-1",
        model="Qwen3",
        tally=Tally(prompt_tokens=7, completion_tokens=sum(map(len, outputs)), choices=3),
    )


@each_output
def test_outcomes(output: Output) -> None:
    response = generated(encode(output.text), finish_reason=output.finish_reason)
    facts = describe(CHAT, {"generate_response": response, "chat_request": {"tools": TOOLS}})
    assert facts.tally.outcomes == output.outcomes


def test_reasoning_that_the_client_does_not_want_is_no_answer() -> None:
    response = generated(encode("<think>\nwell\n</think>"))
    facts = describe(CHAT, {"generate_response": response, "chat_request": {"include_reasoning": False}})
    assert facts.tally.outcomes == {"unanswered": 1}


def test_without_parsers_there_are_no_outcomes() -> None:
    body = {"generate_response": generated(encode(CALL)), "chat_request": {}}
    facts = describe(CHAT, body, tool_call_parser="none", reasoning_parser="none")
    assert (facts.parsers, facts.tally.outcomes) == ((), {})


@pytest.mark.parametrize("size", [1, 3, 100])
@each_output
def test_the_parts_of_a_stream_add_up_to_the_whole(output: Output, size: int) -> None:
    token_ids = encode(output.text)
    state: Any = None
    total = NOTHING
    for begin in range(0, len(token_ids), size):
        choice = {"index": 0, "token_ids": token_ids[begin : begin + size]}
        if begin + size >= len(token_ids):
            choice["finish_reason"] = output.finish_reason
        part = ask(
            CHAT,
            {
                "stream": True,
                "generate_chunks": [{"request_id": "generate-1", "choices": [choice]}],
                "stream_state": state,
                "prompt_tokens": 7,
                "chat_request": {"tools": TOOLS},
            },
        )
        state = part.content.state.model_dump()  # type: ignore[union-attr]
        facts = describe_answer(part)
        assert (facts.streamed, facts.completion_id, facts.model) == (True, "generate-1", "Qwen3")
        assert facts.tally.state_bytes == len(state["data"])
        total += facts.tally
    assert (total.prompt_tokens, total.completion_tokens, total.choices) == (7, len(token_ids), 1)
    # Each part that shows a marker counts.
    outcomes = {**total.outcomes}
    assert bool(outcomes.pop("markup", 0)) == ("markup" in output.outcomes)
    assert outcomes == {name: count for name, count in output.outcomes.items() if name != "markup"}


def test_a_streamed_text_completion() -> None:
    token_ids = encode("one")
    chunk = {"request_id": "c", "choices": [{"index": 0, "token_ids": token_ids, "finish_reason": "stop"}]}
    facts = describe(COMPLETIONS, {"stream": True, "generate_chunk": chunk})
    assert (facts.streamed, facts.parsers, facts.tally.choices, facts.tally.outcomes) == (True, (), 1, {})
    assert facts.tally.prompt_tokens == 0


def test_chunks_of_text_completions_have_no_outcomes() -> None:
    chunk = TextCompletionChunk(id="c", created=0, model="Qwen3", choices=[])
    assert list(find_outcomes(("<tool_call>",), chunk, {})) == []


@pytest.mark.parametrize("name", ["", "two words", "Bearer abc", "x" * 129])
def test_an_odd_id_of_the_answer_is_left_out(name: str) -> None:
    response = {**generated(encode("one")), "request_id": name}
    assert describe(CHAT, {"generate_response": response, "chat_request": {}}).completion_id is None


def test_there_is_no_other_kind_of_answer() -> None:
    other = ask(COMPLETIONS, {"generate_responses": [generated(encode("one"))]})
    chat = ask(CHAT, {"generate_response": generated(encode("one")), "chat_request": {}})
    with pytest.raises(TypeError, match="TextCompletion"):
        describe_answer(chat._replace(content=other.content))
