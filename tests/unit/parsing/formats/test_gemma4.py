"""Calls and reasoning of Gemma 4."""

from __future__ import annotations

import pytest

from tests.support.parsers import Message

from ..support import PARIS, TIME, check, check_both, marked_parsers


def gemma(arguments: str, name: str = "get_weather") -> str:
    return f"<|tool_call>call:{name}{{{arguments}}}<tool_call|>".replace("^", '<|"|>')


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(gemma("city:^Paris^"), Message(calls=[PARIS]), id="a call"),
        pytest.param(gemma("", "get_time") + gemma("city:^Paris^"), Message(calls=[TIME, PARIS]), id="two"),
        pytest.param(
            gemma("days:2,where:{a b:[1,true,null]},tags:[^x^]"),
            Message(calls=[("get_weather", '{"days": 2, "where": {"a b": [1, true, null]}, "tags": ["x"]}')]),
            id="values",
        ),
        pytest.param(
            gemma('city:^{a}"\\n,<tool_call|>^'),
            Message(calls=[("get_weather", r'{"city": "{a}\"\\n,<tool_call|>"}')]),
            id="anything in a string",
        ),
        pytest.param(
            f"<|channel>thought\nhm<channel|>{gemma('city:^Paris^')}",
            Message("", "hm", [PARIS]),
            id="after reasoning",
        ),
        pytest.param(
            f"<|channel>thought\nhm{gemma('city:^Paris^')}", Message("", "hm", [PARIS]), id="in reasoning"
        ),
        pytest.param("<|channel>thought\nhm\n<channel|>\nHi", Message("Hi", "hm"), id="reasoning"),
        pytest.param("<|channel>thought\n<channel|>Hi", Message("Hi"), id="empty reasoning"),
        pytest.param("<|channel>thought\nhm", Message(reasoning="hm"), id="reasoning cut"),
        pytest.param("Hi\n", Message("Hi\n"), id="text"),
    ],
)
def test_calls_and_reasoning_are_parsed(output: str, expected: Message) -> None:
    check_both(marked_parsers("gemma4", "gemma4"), output, expected)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param("<|tool_call>oops<tool_call|>", Message("<|tool_call>oops<tool_call|>"), id="no call"),
        pytest.param(gemma("a:1,,"), Message(gemma("a:1,,")), id="no arguments"),
        pytest.param(gemma("city:^Paris^")[:-12], Message(calls=[PARIS]), id="no end marker"),
        pytest.param(gemma("city:^Paris^")[:-18], Message(gemma("city:^Paris^")[:-18]), id="cut"),
    ],
)
def test_malformed_calls_come_back_as_written(output: str, expected: Message) -> None:
    check(marked_parsers("gemma4", "gemma4"), output, expected)


def test_a_missing_end_between_calls_is_tolerated() -> None:
    output = gemma("", "get_time").removesuffix("<tool_call|>") + gemma("city:^Paris^")
    check_both(marked_parsers("gemma4"), output, Message(calls=[TIME, PARIS]))
