"""Calls of GLM."""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.support.parsers import Message, request_parser

from ..support import PARIS, TIME, TOOLS, check, check_both, marked_parsers, parse_output

LONG: Final = "x" * 400


def glm(name: str, between: str = "", **arguments: str) -> str:
    parts = [
        f"<arg_key>{key}</arg_key>{between}<arg_value>{value}</arg_value>{between}"
        for key, value in arguments.items()
    ]
    return f"<tool_call>{name}{between}{''.join(parts)}</tool_call>"


@pytest.mark.parametrize("name", ["glm45", "glm47"])
@pytest.mark.parametrize("between", ["", "\n"])
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "{}"),
        ({"city": "Paris"}, '{"city": "Paris"}'),
        ({"city": "5", "days": "5"}, '{"city": "5", "days": 5}'),
        ({"city": ""}, '{"city": ""}'),
        ({"city": " a\n"}, r'{"city": " a\n"}'),
        ({"where": '{"x":  1}', "exact": "false"}, '{"where": {"x":  1}, "exact": false}'),
        ({"city": "a</tool_call>b"}, '{"city": "a</tool_call>b"}'),
        ({"other key": "5", "é": "x"}, '{"other key": 5, "é": "x"}'),
    ],
)
def test_arguments_are_typed_by_the_schema(
    name: str, between: str, arguments: dict[str, str], expected: str
) -> None:
    output = glm("get_weather", between, **arguments)
    check_both(marked_parsers(name, "glm45"), output, Message(calls=[("get_weather", expected)]))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(
            f"\n<think>hm</think>\nHi\n{glm('get_time')}\n{glm('get_weather', city='Paris')}",
            Message("Hi", "hm", [TIME, PARIS]),
            id="reasoning, text and two calls",
        ),
        pytest.param(f"<think>hm{glm('get_time')}", Message("", "hm", [TIME]), id="in reasoning"),
        pytest.param(glm("get_time") + "Bye", Message("Bye", "", [TIME]), id="before text"),
        pytest.param(
            "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</tool_call>",
            Message(calls=[PARIS]),
            id="no end of the last value",
        ),
        pytest.param(
            glm("get_weather", city="A").replace("</tool_call>", "") + glm("f", city="B").partition("f")[2],
            Message(calls=[("get_weather", '{"city": "A"}')]),
            id="a parameter twice",
        ),
        pytest.param(
            "<tool_call>get weather</tool_call>", Message("<tool_call>get weather</tool_call>"), id="no name"
        ),
    ],
)
def test_calls_are_parsed(output: str, expected: Message) -> None:
    check_both(marked_parsers("glm45", "glm45"), output, expected)


def test_a_missing_end_between_calls_is_tolerated() -> None:
    output = glm("get_weather", city="Paris").removesuffix("</tool_call>") + glm("get_time")
    check_both(marked_parsers("glm47"), output, Message(calls=[PARIS, TIME]))


def test_a_value_without_its_marker_is_no_call() -> None:
    output = "<tool_call>get_weather<arg_key>city</arg_key>a</tool_call>"
    check(marked_parsers("glm47"), output, Message(output))


def test_parameters_with_the_same_crc_are_two() -> None:
    output = glm("f", plumless="1", buckeroo="2")
    check_both(marked_parsers("glm47"), output, Message(calls=[("f", '{"plumless": 1, "buckeroo": 2}')]))


def test_a_long_value_that_began_as_json_and_is_none_breaks_the_call() -> None:
    output = glm("get_weather", where=f'{{"a": "{LONG}" oops', city="Paris")
    check(
        marked_parsers("glm47"),
        output,
        Message(calls=[("get_weather", json.dumps({"where": f'{{"a": "{LONG}" oops', "city": "Paris"}))]),
    )
    parser = request_parser(marked_parsers("glm47"), tools=TOOLS)
    assert parse_output(parser, output) == Message(
        output.partition(f'{LONG}" ')[2], calls=[("get_weather", f'{{"where": {{"a": "{LONG}" ')]
    )


def test_a_long_value_that_began_as_json_and_has_no_end_breaks_the_call() -> None:
    output = glm("get_weather", until=f"[1, {'1, ' * 200}", city="Paris")
    tools = [{"function": {"name": "get_weather", "parameters": {"properties": {"until": {}}}}}]
    message = parse_output(request_parser(marked_parsers("glm47"), tools=tools), output)
    assert message.content.endswith("Paris</arg_value></tool_call>")
    ((_, arguments),) = message.calls
    assert arguments.startswith('{"until": [1, 1, ')


def test_calls_that_are_not_wanted_are_content() -> None:
    output = glm("get_weather", city="Paris")
    check_both(marked_parsers("glm47"), output, Message(output), tool_choice="none")


def test_a_parameter_twice_is_noticed_among_the_first_when_calls_are_streamed() -> None:
    output = glm("f", **{f"p{number}": "1" for number in range(50)})
    output = output.replace("</tool_call>", "<arg_key>p3</arg_key><arg_value>2</arg_value></tool_call>")
    ((_, arguments),) = parse_output(request_parser(marked_parsers("glm47"), tools=TOOLS), output).calls
    assert json.loads(arguments) == {f"p{number}": 1 for number in range(50)}
    again = output.replace("<arg_key>p3</arg_key><arg_value>2", "<arg_key>p49</arg_key><arg_value>2")
    ((_, arguments),) = parse_output(request_parser(marked_parsers("glm47"), tools=TOOLS), again).calls
    assert arguments.endswith('"p49": 1, "p49": 2}')


@pytest.mark.parametrize(
    ("after", "content", "calls"),
    [
        pytest.param("<tool_call>get_ti", "<tool_call>get_ti", [], id="a call begins"),
        pytest.param(glm("get_time"), "", [TIME], id="a call"),
    ],
)
def test_a_call_that_broke_takes_no_other_with_it(
    after: str, content: str, calls: list[tuple[str, str]]
) -> None:
    broken = glm("get_weather", where=f'{{"a": "{LONG}" oops')
    parser = request_parser(marked_parsers("glm47"), tools=TOOLS, parallel_tool_calls=False)
    message = parse_output(parser, broken + after, cut=True)
    assert message.content == broken.partition(f'{LONG}" ')[2] + content
    assert message.calls[1:] == calls
