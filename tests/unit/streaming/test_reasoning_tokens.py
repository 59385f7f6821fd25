"""`reasoning_tokens` of usage: tokens that begin in the reasoning, however the output is delivered."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.parsing import load_parsers
from tests.support.api_client import CHAT
from tests.support.models import served
from tests.support.vocabularies import vocabulary

from .support import TOOLS, Local

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from derender.models.model import ServedModel
    from derender.settings import ToolCallDeltas

MARKERS: Final = ("<think>", "</think>", "<tool_call>", "</tool_call>")
CALL: Final = ("<tool_call>", "\n", '{"name": "get_weather", ', '"arguments": {"city": "Bonn"}', "}")
TOKENS: Final[tuple[str | bytes, ...]] = (
    *("<eos>", "<pad>", *MARKERS, *CALL[1:]),
    *("\n\n", " ", "hm", ".", "Hi", ", ", "{", '"', "a longer word, "),
    *(b" \xe2\x88", b"\x9e", b"", '"arguments": {"city": "', "<think", ">hm", ".</", "think>Hi"),
)
"""Texts of tokens. Their ids are their places."""
COUNTED: Final = {"prompt_tokens": 1, "completion_tokens": 9, "total_tokens": 10}


def serve(*, marked: bool = True, tools: str | None = "hermes", reasoning: str | None = "qwen3") -> ServedModel:
    """Return a model that has the markers as tokens, unless they are not `marked`."""
    made = vocabulary(
        [token.encode() if isinstance(token, str) else token for token in TOKENS],
        eos_token_id=0,
        stop_token_ids=(0,),
        special_token_ids=(0, 1),
        added_token_ids=tuple(range(6 if marked else 2)),
    )
    return dataclasses.replace(
        served(made, max_model_len=4096),
        parsers=load_parsers(made, tools, reasoning),
        tool_call_deltas="complete",
    )


def ids_of(tokens: Sequence[str | bytes]) -> list[int]:
    return [TOKENS.index(token) for token in tokens]


def splits(ids: Sequence[int]) -> Iterator[list[Sequence[int]]]:
    """Yield ways to split ids: not at all, everywhere, and in two at each place."""
    yield [ids]
    yield [[each] for each in ids]
    for place in range(len(ids) + 1):
        yield [ids[:place], ids[place:]]


def streamed(model: ServedModel, request: dict[str, Any], chunks: Sequence[Sequence[int]], end: Any) -> Any:
    """Return the usage at the end of a stream."""
    state = usage = None
    for number, ids in enumerate(chunks, 1):
        choice = {"index": 0, "token_ids": list(ids), **(end if number == len(chunks) else {})}
        body = {
            **request,
            "stream": True,
            "generate_chunk": {"choices": [choice], "usage": COUNTED},
            "stream_state": state,
        }
        status, answer = Local(model).post(CHAT, body)
        assert status == 200, answer
        state, usage = answer["stream_state"], answer["chunk"]["usage"]
    return usage


def whole(model: ServedModel, request: dict[str, Any], choices: Sequence[dict[str, Any]]) -> Any:
    """Return the complete answer."""
    status, answer = Local(model).post(CHAT, {**request, "generate_response": {"choices": list(choices)}})
    assert status == 200, answer
    return answer


@pytest.mark.parametrize(
    ("tokens", "expected", "client", "end"),
    [
        pytest.param(["Hi", "."], 0, {}, {}, id="none"),
        pytest.param(["<think>", "</think>", "Hi"], 0, {}, {}, id="empty"),
        pytest.param(["<think>", "hm", ".", "</think>", "\n\n", "Hi"], 2, {}, {}, id="between the markers"),
        pytest.param(
            ["<think>", "\n", "hm", "\n\n", "\n", "</think>", "\n", "Hi"], 4, {}, {}, id="white space, too"
        ),
        pytest.param(["<think>", "\n", "</think>", "Hi"], 1, {}, {}, id="white space alone"),
        pytest.param(["<think>", "\n", "<think>", "hm", "</think>", "Hi"], 2, {}, {}, id="a marker twice"),
        pytest.param(["<think>", "hm", "<pad>", ".", "</think>"], 2, {}, {}, id="a special token between them"),
        pytest.param(["<think>", "hm", b"", "</think>", b"", "Hi"], 1, {}, {}, id="tokens without text"),
        pytest.param(["<think>", "hm", "</think>", "Hi"], 1, {"include_reasoning": False}, {}, id="hidden"),
        pytest.param(["<think>", "hm", "."], 2, {}, {"finish_reason": "length"}, id="cut"),
        pytest.param(["<think>", "hm", "<eos>"], 1, {}, {}, id="ended by a stop token"),
        pytest.param(["<think>", b" \xe2\x88", b"\x9e", "hm"], 3, {}, {}, id="a character of two tokens"),
        pytest.param(
            ["<think>", "hm", b" \xe2\x88"], 1, {}, {"finish_reason": "length"}, id="half a character"
        ),
        pytest.param(["<think>", b" \xe2\x88", "</think>", "Hi"], 1, {}, {}, id="half of one before a marker"),
        pytest.param(["<think>", "hm", "\n", *CALL, "\n", "</tool_call>"], 2, {}, {}, id="before a call"),
        pytest.param(["<think>", "hm", *CALL, "\n", "</think>", "Hi"], 2, {}, {}, id="a call without its end"),
        pytest.param(
            ["<think>", "hm", *CALL[:4], "\n", "</think>", "Hi"], 6, {}, {}, id="a call that is quoted"
        ),
        pytest.param(["<think>", "hm", *CALL[:3], ".", ".", "</think>"], 6, {}, {}, id="a call that breaks"),
        pytest.param(["<think>", "hm", *CALL[:3]], 4, {}, {"finish_reason": "length"}, id="a call that is cut"),
        pytest.param(
            ["<think>", "hm", *CALL, "</tool_call>", *CALL, "</tool_call>"], 1, {}, {}, id="two calls"
        ),
        pytest.param(
            ["<think>", "hm", ".", "Hi"], 1, {"stop": ["."]}, {"stop_reason": "."}, id="up to a stop string"
        ),
        pytest.param(
            ["<think>", "hm", ".", "Hi", ", "],
            3,
            {"stop": [".Hi"], "include_stop_str_in_output": True},
            {"stop_reason": ".Hi"},
            id="an included stop string",
        ),
        pytest.param(
            ["<think>", "hm", "Hi", "</think>", "."],
            2,
            {"stop": ["</think>"]},
            {"stop_reason": "</think>"},
            id="a marker as stop string",
        ),
        pytest.param(
            ["<think>", "hm", ".", "Hi", "hm", "</think>", "."], 4, {"stop": [".Hi,"]}, {}, id="no stop string"
        ),
    ],
)
def test_tokens_are_counted(
    tokens: list[str], expected: int, client: dict[str, Any], end: dict[str, Any]
) -> None:
    model, ids = serve(), ids_of(tokens)
    request = {"chat_request": {"tools": TOOLS, **client}, "prompt_token_ids": [0]}
    end = {"finish_reason": "stop", **end}
    answer = whole(model, request, [{"index": 0, "token_ids": ids, **end}])
    assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": expected}
    for deltas in ("complete", "fragments"):
        serving = dataclasses.replace(model, tool_call_deltas=deltas)
        for chunks in splits(ids):
            usage = streamed(serving, request, chunks, end)
            assert usage["completion_tokens_details"] == {"reasoning_tokens": expected}, chunks


def test_a_token_counts_where_it_begins() -> None:
    model, ids = serve(marked=False), ids_of(["<think", ">hm", "hm", ".</", "think>Hi", "Hi"])
    request = {"chat_request": {}, "prompt_token_ids": [0]}
    answer = whole(model, request, [{"index": 0, "token_ids": ids, "finish_reason": "stop"}])
    assert answer["choices"][0]["message"]["reasoning"] == "hmhm."
    for chunks in splits(ids):
        usage = streamed(model, request, chunks, {"finish_reason": "stop"})
        assert usage["completion_tokens_details"] == answer["usage"]["completion_tokens_details"]
    assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}


def test_reasoning_that_the_prompt_opens_counts() -> None:
    ids = ids_of(["hm", ".", "</think>", "Hi"])
    request = {"chat_request": {}, "prompt_token_ids": ids_of(["<eos>", "<think>"])}
    for chunks in splits(ids):
        usage = streamed(serve(), request, chunks, {"finish_reason": "stop"})
        assert usage["completion_tokens_details"] == {"reasoning_tokens": 2}


def test_tokens_that_were_streamed_as_a_call_are_not_counted() -> None:
    """A call in the reasoning that has become long is streamed before its text turns out to be quoted."""
    quoted = [
        "<tool_call>",
        "\n",
        '{"name": "get_weather", ',
        '"arguments": {"city": "',
        *["a longer word, "] * 80,
    ]
    ids = ids_of(["<think>", "hm", *quoted, "</think>", "Hi"])
    request = {"chat_request": {"tools": TOOLS}, "prompt_token_ids": [0]}
    counted: dict[ToolCallDeltas, int] = {"complete": 1 + len(quoted), "fragments": 1}
    for deltas, expected in counted.items():
        model = dataclasses.replace(serve(), tool_call_deltas=deltas)
        for chunks in ([ids], [[each] for each in ids], [ids[:50], ids[50:]]):
            usage = streamed(model, request, chunks, {"finish_reason": "stop"})
            assert usage["completion_tokens_details"] == {"reasoning_tokens": expected}


def test_tokens_of_all_choices_are_added_up() -> None:
    model, ids = serve(), ids_of(["<think>", "hm", ".", "</think>", "Hi"])
    request = {"chat_request": {"n": 2}, "prompt_token_ids": [0]}
    choices = [
        {"index": 0, "token_ids": ids, "finish_reason": "stop"},
        {"index": 1, "token_ids": ids[:2], "finish_reason": "stop"},
    ]
    assert whole(model, request, choices)["usage"]["completion_tokens_details"] == {"reasoning_tokens": 3}
    chunks = [{"choices": [choice]} for choice in choices]
    body = {**request, "stream": True, "generate_chunks": [*chunks, {"choices": [], "usage": COUNTED}]}
    _, answer = Local(model).post(CHAT, body)
    assert answer["chunks"][-1]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 3}


@pytest.mark.parametrize("tools", [None, "hermes"])
def test_without_a_reasoning_parser_nothing_is_counted(tools: str | None) -> None:
    ids = ids_of(["<think>", "hm", "</think>", "Hi"])
    request = {"chat_request": {}, "prompt_token_ids": [0]}
    model = serve(tools=tools, reasoning=None)
    answer = whole(model, request, [{"index": 0, "token_ids": ids, "finish_reason": "stop"}])
    assert answer["usage"]["completion_tokens_details"] is None
    assert streamed(model, request, [ids], {"finish_reason": "stop"})["completion_tokens_details"] is None


def test_other_details_are_kept() -> None:
    details = {"accepted_prediction_tokens": 3, "reasoning_tokens": 0}
    response = {
        "choices": [{"index": 0, "token_ids": ids_of(["<think>", "hm"]), "finish_reason": "stop"}],
        "usage": {**COUNTED, "completion_tokens_details": details},
    }
    _, answer = Local(serve()).post(
        CHAT, {"generate_response": response, "chat_request": {}, "prompt_token_ids": [0]}
    )
    assert answer["usage"]["completion_tokens_details"] == {**details, "reasoning_tokens": 1}
