"""What models leave out, misplace or quote, by family: no call is made up, and none is lost that is there."""

from __future__ import annotations

import pytest

from derender.parsing.arguments.schema import ANY_TYPE, parameter_types
from tests.support.parsers import request_parser

from .support import TOOLS, Said, marked, said

CALL = '{"name": "get_weather", "arguments": {"city": "a"}}'
CITY = ("get_weather", '{"city": "a"}')
TIME = ("get_time", "{}")
DSML = "<｜DSML｜"
END = "</｜DSML｜"


def check(tools: str, reasoning: str | None, output: str, expected: Said) -> None:
    parsers = marked(tools, reasoning)
    results = [
        said(request_parser(parsers, tools=TOOLS, whole_calls=whole_calls), output)
        for whole_calls in (True, False)
    ]
    assert results == [expected, expected]


@pytest.mark.parametrize(
    ("tools", "output", "calls"),
    [
        ("hermes", f"<tool_call>{CALL}\n<tool_call>{CALL}</tool_call>", [CITY, CITY]),
        ("hermes", f"<tool_call>{CALL}\n{CALL}</tool_call>", [CITY, CITY]),
        (
            "glm47",
            "<tool_call>get_weather<arg_key>city</arg_key><arg_value>a</arg_value><tool_call>get_time</tool_call>",
            [CITY, TIME],
        ),
        (
            "deepseek_v31",
            (
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{}"
                '<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "a"}'
                "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
            ),
            [TIME, CITY],
        ),
        (
            "gemma4",
            '<|tool_call>call:get_time{}<|tool_call>call:get_weather{city:<|"|>a<|"|>}<tool_call|>',
            [TIME, CITY],
        ),
        ("mistral", "[TOOL_CALLS]get_time[ARGS]", [TIME]),
        (
            "kimi_k2",
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_time"
                "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
            ),
            [TIME],
        ),
    ],
)
def test_an_end_that_is_missing(tools: str, output: str, calls: list[tuple[str, str]]) -> None:
    check(tools, None, output, Said("", "", calls))


@pytest.mark.parametrize(
    ("tools", "output"),
    [
        ("qwen3_coder", '<tool_call>\n<function=get_weather>\n{"city": "a"}\n</function>\n</tool_call>'),
        ("qwen3_coder", "I will call `<function=get_time>` now."),
        (
            "deepseek_v3",
            "<｜tool▁calls▁begin｜>function<｜tool▁sep｜>get_time\n```json\n{}\n```<｜tool▁calls▁end｜>",
        ),
        ("kimi_k2", "<|tool_calls_section_begin|>oops<|tool_calls_section_end|>"),
        ("deepseek_v32", f"{DSML}function_calls>\noops\n{END}function_calls>"),
        ("hermes", "<tool_call>[]</tool_call>"),
    ],
)
def test_what_is_no_call_is_text_as_it_was(tools: str, output: str) -> None:
    parser = request_parser(marked(tools), tools=TOOLS, whole_calls=True)
    assert said(parser, output) in (Said(output, "", []), Said("", "", []))


@pytest.mark.parametrize(
    ("tools", "output"),
    [
        ("glm47", "<tool_call>get_weather<arg_key>city</arg_key>a</tool_call>"),
        (
            "deepseek_v32",
            (
                f'{DSML}function_calls>\n{DSML}invoke name="get_weather">\n'
                f'{DSML}parameter string="true" name="city">a'
                f"{END}parameter>\n{END}invoke>\n{END}function_calls>"
            ),
        ),
    ],
)
def test_a_parameter_that_is_none_makes_no_call(tools: str, output: str) -> None:
    parser = request_parser(marked(tools), tools=TOOLS, whole_calls=True)
    assert said(parser, output).calls == []


@pytest.mark.parametrize(
    ("tools", "reasoning", "output", "expected"),
    [
        (
            "deepseek_v31",
            "deepseek_r1",
            "use <｜tool▁calls▁begin｜> then</think>answer",
            Said("answer", "use <｜tool▁calls▁begin｜> then", []),
        ),
        (
            "kimi_k2",
            "kimi_k2",
            "use <|tool_calls_section_begin|> then</think>answer",
            Said("answer", "use <|tool_calls_section_begin|> then", []),
        ),
        (
            "deepseek_v32",
            "deepseek_r1",
            f"use {DSML}function_calls> then</think>answer",
            Said("answer", f"use {DSML}function_calls> then", []),
        ),
        (
            "hermes",
            "qwen3",
            (
                '<think>\nI reply with <tool_call>\n{"name": <function-name>}\n</tool_call>\nso.\n</think>\n\n'
                f"<tool_call>{CALL}</tool_call>"
            ),
            Said("", 'I reply with <tool_call>\n{"name": <function-name>}\n</tool_call>\nso.', [CITY]),
        ),
        (
            "qwen3_coder",
            "deepseek_r1",
            "I use <function=f> and <tool_call> tags.\n</think>\n\nanswer",
            Said("answer", "I use <function=f> and <tool_call> tags.", []),
        ),
    ],
)
def test_markers_that_reasoning_quotes_are_reasoning(
    tools: str, reasoning: str, output: str, expected: Said
) -> None:
    check(tools, reasoning, output, expected)


def test_parameters_whose_names_are_alike_are_two() -> None:
    # Their CRC-32 is the same.
    output = (
        "<tool_call>f<arg_key>plumless</arg_key><arg_value>1</arg_value>"
        "<arg_key>buckeroo</arg_key><arg_value>2</arg_value></tool_call>"
    )
    check("glm47", None, output, Said("", "", [("f", '{"plumless": 1, "buckeroo": 2}')]))


def test_a_mention_of_a_function_does_not_take_the_next_call() -> None:
    call = "<tool_call>\n<function=get_weather>\n<parameter=city>\na\n</parameter>\n</function>\n</tool_call>"
    text = "I call `<function=get_time>` now."
    check("qwen3_coder", None, f"{text}\n\n{call}", Said(text, "", [CITY]))


def test_a_schema_that_holds_itself_many_times_comes_to_an_end() -> None:
    schema = {"properties": {"v": {"anyOf": [{"$ref": "#/properties/v"}] * 8}}}
    assert parameter_types(schema, "v") == ANY_TYPE
    assert parameter_types({"allOf": [{"$ref": "#"}] * 8, "properties": {}}, "v") == ANY_TYPE
