"""Calls of Llama 3 and 4 as JSON."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.parsers import Message

from ..support import PARIS, TIME, check, check_both, marked_parsers

UNMARKED: Final = '\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n'
BARE: Final = '{"name": "get_weather", "parameters": {"city": "Paris"}}'
BARE_TIME: Final = '{"name": "get_time", "parameters": {}}'


@pytest.mark.parametrize("name", ["llama3_json", "llama4_json"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(BARE, Message(calls=[PARIS]), id="a call"),
        pytest.param(f" \n{BARE}\n", Message(calls=[PARIS]), id="in white space"),
        pytest.param(BARE.replace("parameters", "arguments"), Message(calls=[PARIS]), id="arguments"),
        pytest.param('{"type": "function", ' + BARE[1:], Message(calls=[PARIS]), id="a type"),
        pytest.param(f"<|python_tag|>{BARE}", Message(calls=[PARIS]), id="a tag"),
        pytest.param(f"Hi <|python_tag|>{BARE}", Message("Hi ", "", [PARIS]), id="text and a tag"),
        pytest.param(f"{BARE}; {BARE_TIME}", Message(calls=[PARIS, TIME]), id="two"),
        pytest.param(f"{BARE}\n{BARE_TIME}", Message(calls=[PARIS, TIME]), id="two on lines"),
        pytest.param(f"{BARE} Bye", Message(" Bye", "", [PARIS]), id="before text"),
        pytest.param("Hi", Message("Hi"), id="text"),
    ],
)
def test_calls_are_parsed(name: str, output: str, expected: Message) -> None:
    check_both(marked_parsers(name), output, expected)


@pytest.mark.parametrize(
    "output",
    [
        '{"city": "Paris"}',
        '{"name": "nosuch", "parameters": {}}',
        '{"name": "get_time", "price": 3}',
        '{"name": "get_time"',
        '{"name": "get_time", "parameters": "x"}',
        "{",
        "{}",
        f"Hi {BARE}",
    ],
)
def test_json_that_calls_no_offered_tool_is_content(output: str) -> None:
    check(marked_parsers("llama3_json"), output, Message(output))
