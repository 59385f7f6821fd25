"""Calls of Hermes and Qwen3: JSON objects between markers."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.parsers import Message

from ..support import PARIS, TIME, check, check_both, marked_parsers

HERMES: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
HERMES_TIME: Final = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'


BARE: Final = '{"name": "get_weather", "parameters": {"city": "Paris"}}'
BARE_TIME: Final = '{"name": "get_time", "parameters": {}}'


@pytest.mark.parametrize("name", ["hermes", "qwen3_json"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(HERMES, Message(calls=[PARIS]), id="a call"),
        pytest.param(f"Hi\n\n{HERMES}", Message("Hi", "", [PARIS]), id="after text"),
        pytest.param(f"{HERMES}\n{HERMES_TIME}", Message(calls=[PARIS, TIME]), id="two"),
        pytest.param(f"<think>\nhm\n</think>\n\n{HERMES}", Message("", "hm", [PARIS]), id="after reasoning"),
        pytest.param(f"<think>\nhm\n{HERMES}", Message("", "hm", [PARIS]), id="in reasoning"),
        pytest.param(f"{HERMES}\nBye", Message("\nBye", "", [PARIS]), id="before text"),
        pytest.param(
            '<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>',
            Message(calls=[("f", '{"a":1}')]),
            id="dense",
        ),
        pytest.param(
            '<tool_call>{"arguments": {}, "name": "f"}</tool_call>',
            Message(calls=[("f", "{}")]),
            id="name last",
        ),
        pytest.param('<tool_call>{"name": "f"}</tool_call>', Message(calls=[("f", "{}")]), id="no arguments"),
        pytest.param(
            f"<tool_call>[{BARE}, {BARE_TIME}]</tool_call>", Message(calls=[PARIS, TIME]), id="a list"
        ),
        pytest.param(
            '<tool_call>{"name": "f", "arguments": {"a": "<tool_call></tool_call></think>"}}</tool_call>',
            Message(calls=[("f", '{"a": "<tool_call></tool_call></think>"}')]),
            id="markers in a string",
        ),
        pytest.param(f"[{BARE}]", Message(f"[{BARE}]"), id="no markup"),
    ],
)
def test_calls_are_parsed(name: str, output: str, expected: Message) -> None:
    check_both(marked_parsers(name, "qwen3"), output, expected)


@pytest.mark.parametrize(
    "output",
    [
        "<tool_call>oops</tool_call>",
        "<tool_call>\noops\n</tool_call>",
        '<tool_call>{"name": 1}</tool_call>',
        '<tool_call>{"name": "f", "arguments": "oops"}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {"a": }}</tool_call>',
        '<tool_call>{"name": "f", "arguments": [1]}</tool_call> tail',
    ],
)
def test_malformed_calls_come_back_as_written(output: str) -> None:
    check(marked_parsers("hermes", "qwen3"), output, Message(output))
    check(marked_parsers("hermes", "qwen3"), output + HERMES, Message(output, "", [PARIS]))
    check(marked_parsers("hermes", "qwen3"), HERMES + output, Message(output, "", [PARIS]))


@pytest.mark.parametrize(
    ("output", "cut", "expected"),
    [
        pytest.param(HERMES[:-20], False, Message(HERMES[:-20]), id="in arguments"),
        pytest.param(HERMES[:-20], True, Message(HERMES[:-20]), id="in arguments, at a length"),
        pytest.param(HERMES[:-13], False, Message(calls=[PARIS]), id="before the end marker"),
        pytest.param(HERMES[:-12], False, Message(calls=[PARIS]), id="before the end marker, on a new line"),
        pytest.param(HERMES[:-12], True, Message(calls=[PARIS]), id="before the end marker, at a length"),
        pytest.param("Hi\n<tool_call>", False, Message("Hi"), id="nothing in it"),
        pytest.param(HERMES + HERMES[:-20], False, Message(calls=[PARIS]), id="beside a call"),
        pytest.param(HERMES + HERMES[:-20], True, Message(calls=[PARIS]), id="beside a call, at a length"),
        pytest.param(HERMES + HERMES[:-13], False, Message(calls=[PARIS, PARIS]), id="beside a call, complete"),
    ],
)
def test_a_truncated_call_comes_back_as_text_unless_another_was_complete(
    output: str, cut: bool, expected: Message
) -> None:
    check(marked_parsers("hermes", "qwen3"), output, expected, cut=cut)


def test_marked_calls_need_not_be_of_offered_tools() -> None:
    check(
        marked_parsers("hermes"), '<tool_call>{"name": "nosuch"}</tool_call>', Message(calls=[("nosuch", "{}")])
    )


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(f"{HERMES.removesuffix('</tool_call>')}{HERMES}", id="no end between two calls"),
        pytest.param(
            HERMES.replace("}}", '}}\n{"name": "get_weather", "arguments": {"city": "Paris"}}'),
            id="two calls in one markup",
        ),
    ],
)
def test_missing_markers_between_calls_are_tolerated(output: str) -> None:
    check_both(marked_parsers("hermes"), output, Message(calls=[PARIS, PARIS]))


@pytest.mark.parametrize(
    ("before", "after", "content"),
    [
        pytest.param("Hi ", "</tool_call></tool_call>then", "Hi then", id="a doubled end"),
        pytest.param("Hi ", "}\n</tool_call>then", "Hi then", id="a doubled brace"),
        pytest.param("Hi", " then", "Hi then", id="no end"),
        pytest.param("Hi\n", " then", "Hi\nthen", id="no end, and space before the call"),
        pytest.param("", "\nthen", "then", id="no end, and nothing before the call"),
    ],
)
def test_white_space_around_a_call_parts_the_words(before: str, after: str, content: str) -> None:
    call = HERMES.removesuffix("\n</tool_call>")
    check_both(marked_parsers("hermes"), f"{before}{call}{after}", Message(content, "", [PARIS]))


def test_other_keys_in_place_of_arguments_are_text() -> None:
    output = '<tool_call>{"name": "get_weather", "city": "Paris"}</tool_call>'
    check_both(marked_parsers("hermes"), output, Message(output))


def test_an_empty_list_is_no_call_and_no_text() -> None:
    check_both(marked_parsers("hermes"), "<tool_call>[]</tool_call>", Message())


def test_markers_quoted_in_reasoning_are_reasoning() -> None:
    quoted = 'I reply with <tool_call>\n{"name": <function-name>}\n</tool_call>\nso.'
    output = f"<think>\n{quoted}\n</think>\n\n{HERMES}"
    check_both(marked_parsers("hermes", "qwen3"), output, Message("", quoted, [PARIS]))
