"""Calls of Qwen3-Coder."""

from __future__ import annotations

import pytest

from tests.support.parsers import Message

from ..support import PARIS, TIME, check, check_both, marked_parsers


def qwen(*parameters: str, name: str = "get_weather") -> str:
    return f"<tool_call>\n<function={name}>\n{''.join(parameters)}</function>\n</tool_call>"


def parameter(key: str, value: str) -> str:
    return f"<parameter={key}>\n{value}\n</parameter>\n"


@pytest.mark.parametrize("name", ["qwen3_xml", "qwen3_coder"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(qwen(parameter("city", "Paris")), Message(calls=[PARIS]), id="a call"),
        pytest.param(qwen(name="get_time"), Message(calls=[TIME]), id="no parameters"),
        pytest.param(
            f"Hi\n\n{qwen(name='get_time')}\n{qwen(name='get_time')}", Message("Hi", "", [TIME, TIME]), id="two"
        ),
        pytest.param(f"<think>hm\n{qwen(name='get_time')}", Message("", "hm", [TIME]), id="in reasoning"),
        pytest.param(
            f"<think>hm</think>\n\n{qwen(name='get_time')}", Message("", "hm", [TIME]), id="after reasoning"
        ),
        pytest.param("<function=get_time>\n</function>", Message(calls=[TIME]), id="no markers"),
        pytest.param(
            "<function=get_time>\n</function>\n</tool_call>", Message(calls=[TIME]), id="no first marker"
        ),
        pytest.param(
            qwen(
                *(
                    parameter(*each)
                    for each in {"city": "5", "days": "5", "exact": "True", "until": "null"}.items()
                )
            ),
            Message(calls=[("get_weather", '{"city": "5", "days": 5, "exact": true, "until": null}')]),
            id="types",
        ),
        pytest.param(
            qwen(parameter("where", "{'x': [1, None]}"), parameter("tags", '["a"]')),
            Message(calls=[("get_weather", '{"where": {"x": [1, null]}, "tags": ["a"]}')]),
            id="objects and arrays",
        ),
        pytest.param(
            qwen(parameter("days", "two"), parameter("until", "1.5")),
            Message(calls=[("get_weather", '{"days": "two", "until": "1.5"}')]),
            id="of no type it may have",
        ),
        pytest.param(
            qwen(parameter("x", "5"), name="nosuch"),
            Message(calls=[("nosuch", '{"x": 5}')]),
            id="a tool not offered",
        ),
        pytest.param(
            qwen(parameter('"city"', "Paris"), name='"get_weather"'),
            Message(calls=[PARIS]),
            id="names in quotes",
        ),
        pytest.param(
            qwen(parameter("'city'", "5"), parameter("city", "6"), name="'get_weather'"),
            Message(calls=[("get_weather", '{"city": "5"}')]),
            id="names in other quotes",
        ),
        pytest.param(
            qwen(parameter('"city', "a"), parameter('"nosuch"', "b")),
            Message(calls=[("get_weather", r'{"\"city": "a", "\"nosuch\"": "b"}')]),
            id="quotes that belong to names",
        ),
        pytest.param(qwen(name='"nosuch"'), Message(qwen(name='"nosuch"')), id="a tool not offered, in quotes"),
        pytest.param(
            qwen(parameter("city", "\n a\n\nb \n")),
            Message(calls=[("get_weather", r'{"city": "\n a\n\nb \n"}')]),
            id="white space in a value",
        ),
        pytest.param(
            qwen(parameter("city", "")), Message(calls=[("get_weather", '{"city": ""}')]), id="an empty value"
        ),
        pytest.param(qwen("<parameter=city>Paris</parameter>"), Message(calls=[PARIS]), id="on one line"),
        pytest.param(
            qwen(parameter("city", 'a</parameter>b "<c>"')),
            Message(calls=[("get_weather", r'{"city": "a</parameter>b \"<c>\""}')]),
            id="markup in a value",
        ),
        pytest.param(
            qwen(parameter("city", "A"), parameter("city", "B"), parameter("days", "1")),
            Message(calls=[("get_weather", '{"city": "A", "days": 1}')]),
            id="a parameter twice",
        ),
        pytest.param(
            qwen("<parameter=city>\nParis\n", parameter("days", "1")),
            Message(calls=[("get_weather", '{"city": "Paris", "days": 1}')]),
            id="no end of a value",
        ),
        pytest.param(qwen("<parameter=city>\nParis\n"), Message(calls=[PARIS]), id="no end of the last value"),
    ],
)
def test_calls_are_parsed(name: str, output: str, expected: Message) -> None:
    check_both(marked_parsers(name, "qwen3"), output, expected)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(qwen(parameter("city", "Paris"))[:-13], Message(calls=[PARIS]), id="the end marker"),
        pytest.param("<tool_call>oops</tool_call>", Message("<tool_call>oops</tool_call>"), id="all"),
        pytest.param("Hi <function=", Message("Hi"), id="the name"),
        pytest.param(
            "<tool_call>\n<function=get_time>\n",
            Message("<tool_call>\n<function=get_time>\n"),
            id="the end of the function",
        ),
        pytest.param(
            qwen(parameter("city", "Paris"))[:50],
            Message(qwen(parameter("city", "Paris"))[:50]),
            id="a value",
        ),
        pytest.param(
            qwen(name="get_time") + "<tool_call>\n<function=f>", Message(calls=[TIME]), id="all, beside a call"
        ),
    ],
)
def test_missing_ends_are_tolerated(output: str, expected: Message) -> None:
    check(marked_parsers("qwen3_xml", "qwen3"), output, expected)


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(
            "<tool_call>\n<function=get_weather>\noops\n</function>\n</tool_call>", id="no parameters"
        ),
        pytest.param("I will call `<function=get_time>` now.", id="a mention"),
    ],
)
def test_other_uses_of_the_markers_are_text(output: str) -> None:
    check(marked_parsers("qwen3_coder"), output, Message(output))


def test_a_mention_of_a_function_does_not_take_the_next_call() -> None:
    text = "I call `<function=get_time>` now."
    output = f"{text}\n\n{qwen(parameter('city', 'Paris'))}"
    check_both(marked_parsers("qwen3_coder"), output, Message(text, calls=[PARIS]))


def test_markers_quoted_in_reasoning_are_reasoning() -> None:
    quoted = "I use <function=f> and <tool_call> tags."
    output = f"{quoted}\n</think>\n\nHi"
    check_both(marked_parsers("qwen3_coder", "deepseek_r1"), output, Message("Hi", quoted))
