"""Calls as a list of Python calls."""

from __future__ import annotations

import pytest

from tests.support.parsers import Message, request_parser

from ..support import PARIS, TIME, TOOLS, check, check_both, marked_parsers, parse_output


def test_the_first_of_a_list_is_kept_without_parallel_calls() -> None:
    check_both(
        marked_parsers("pythonic"), "[get_time(), get_time()]", Message(calls=[TIME]), parallel_tool_calls=False
    )


@pytest.mark.parametrize("name", ["pythonic", "llama4_pythonic"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param('[get_weather(city="Paris")]', Message(calls=[PARIS]), id="a call"),
        pytest.param(" [ get_weather ( city = 'Paris' ) ] ", Message(calls=[PARIS]), id="much space"),
        pytest.param("[get_weather(city='Paris'), get_time()]", Message(calls=[PARIS, TIME]), id="two"),
        pytest.param(
            "[get_weather(city='Paris'),\n get_time(),\n]", Message(calls=[PARIS, TIME]), id="two on lines"
        ),
        pytest.param(
            "[get_weather(days=-2, exact=True, until=None, tags=['x', \"y\"])]",
            Message(calls=[("get_weather", '{"days": -2, "exact": true, "until": null, "tags": ["x", "y"]}')]),
            id="values",
        ),
        pytest.param(
            "[get_weather(city='a), b]\\n')]",
            Message(calls=[("get_weather", r'{"city": "a), b]\n"}')]),
            id="a string",
        ),
        pytest.param("[get_time()] Bye", Message(" Bye", "", [TIME]), id="before text"),
    ],
)
def test_calls_are_parsed(name: str, output: str, expected: Message) -> None:
    check_both(marked_parsers(name), output, expected)


@pytest.mark.parametrize(
    "output",
    [
        "Hi [get_time()]",
        "[1, 2]",
        "[]",
        "[get_time",
        "[nosuch()]",
        '[get_weather("Paris")]',
        "[get_weather(city=Paris)]",
        "[get_weather(city='Pa",
        "get_time()",
    ],
)
def test_lists_that_call_no_offered_tools_are_content(output: str) -> None:
    check(marked_parsers("pythonic"), output, Message(output))


@pytest.mark.parametrize(
    ("output", "streamed"),
    [
        ("[get_time()", Message("[get_time()")),
        ("[get_time(), get_time()", Message("[get_time(), get_time()")),
        (
            "[get_weather(city='Paris'), get_t",
            Message(", get_t", "", [("get_weather", '{"city": "Paris"')]),
        ),
    ],
)
def test_lists_that_are_cut_have_no_complete_call(output: str, streamed: Message) -> None:
    check(marked_parsers("pythonic"), output, Message(output), cut=True)
    parser = request_parser(marked_parsers("pythonic"), tools=TOOLS, whole_calls=False)
    assert parse_output(parser, output, cut=True) == streamed


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("<|python_start|>[get_time()]<|python_end|>", Message(calls=[TIME])),
        ("Hi\n<|python_start|>[get_time()]<|python_end|>", Message("Hi", "", [TIME])),
        ("<|python_start|>[get_time()]", Message(calls=[TIME])),
        ("Hi \n<|python_end|>you <|python_start|>there", Message("Hi\nyou \nthere")),
    ],
)
def test_llama_4_may_put_the_list_between_markers(output: str, expected: Message) -> None:
    check_both(marked_parsers("llama4_pythonic"), output, expected)
