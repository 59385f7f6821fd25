"""Outputs of each family, parsed: content, reasoning and calls.

Each output is read whole, character by character and cut in two at each place, its state as JSON between.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.parsing import CallStart, load_parsers, parse, start
from tests.support.parsers import request_parser

from .support import TOOLS, events_of, joined, marked, pieces_of, said

if TYPE_CHECKING:
    from derender.decoding.pieces import Piece
    from derender.parsing import Parser, Parsers
    from derender.vocabulary import Vocabulary

Expected = tuple[str, str, list[tuple[str, str]]]
"""Content, reasoning, calls."""

PARIS: Final = ("get_weather", '{"city": "Paris"}')
TIME: Final = ("get_time", "{}")
NAMED: Final = {"type": "function", "function": {"name": "get_weather"}}


def check(parsers: Parsers, output: str, expected: Expected, *, cut: bool = False, **request: Any) -> None:
    """An output says what is expected, however it is cut."""
    parser = request_parser(parsers, **{"tools": TOOLS, "whole_calls": True, **request})
    assert said(parser, output, cut=cut) == expected
    for _, arguments in expected[2]:
        assert isinstance(json.loads(arguments), dict)


def check_complete(parsers: Parsers, output: str, expected: Expected, **request: Any) -> None:
    """So does a complete one whose calls are given as they come."""
    check(parsers, output, expected, **request)
    check(parsers, output, expected, whole_calls=False, **request)


# --- what all share -------------------------------------------------------------------------------------------

HERMES: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
HERMES_TIME: Final = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", ("", "", [])),
        ("Hi", ("Hi", "", [])),
        (" \n", (" \n", "", [])),
        ("\n\nHi \n", ("\n\nHi \n", "", [])),
        (" " * 300, (" " * 300, "", [])),
        ("é 東京 😀", ("é 東京 😀", "", [])),
        ("a < b <too", ("a < b <too", "", [])),
        ("<think>\nhm\n</think>\n\nHi", ("Hi", "hm", [])),
        ("<think>hm</think>Hi", ("Hi", "hm", [])),
        ("<think>\n\n</think>\n\nHi", ("Hi", "", [])),
        ("<think>\nhm\n\nmm\n</think>\n\nHi\n\nthere\n", ("Hi\n\nthere\n", "hm\n\nmm", [])),
        ("\n<think>hm</think>Hi", ("Hi", "hm", [])),
        ("</think>\n\nHi", ("Hi", "", [])),
        ("<think>\nhm", ("", "hm", [])),
        ("<think>hm</think>", ("", "hm", [])),
        ("<think>hm</think> \n", ("", "hm", [])),
        ("<think>", ("", "", [])),
        ("<think>a</think>b<think>c</think>d", ("bd", "ac", [])),
        ("<think>\na <think> b</think>Hi", ("Hi", "a <think> b", [])),
    ],
)
def test_reasoning_is_between_its_markers(output: str, expected: Expected) -> None:
    check(marked("hermes", "qwen3"), output, expected)
    check(marked(None, "qwen3"), output, expected)


@pytest.mark.parametrize("reasoning", ["deepseek_r1", "kimi_k2", "glm47"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("hm</think>\n\nHi", ("Hi", "hm", [])),
        ("\nhm\n</think>Hi", ("Hi", "\nhm", [])),
        ("<think>\nhm</think>Hi", ("Hi", "hm", [])),
        ("\n<think>hm", ("", "hm", [])),
        ("hm", ("", "hm", [])),
        ("</think>Hi", ("Hi", "", [])),
        ("hm" + HERMES, ("", "hm", [PARIS])),
    ],
)
def test_models_that_always_think_do_so_from_the_beginning(
    reasoning: str, output: str, expected: Expected
) -> None:
    check(marked("hermes", reasoning), output, expected)
    check(marked("hermes", "qwen3"), output, expected, chat_template_kwargs={"enable_thinking": True})


def test_models_that_always_think_do_not_where_thinking_is_off() -> None:
    check(
        marked("hermes", "deepseek_r1"), "Hi", ("Hi", "", []), chat_template_kwargs={"enable_thinking": False}
    )


def test_without_a_reasoning_parser_its_markers_are_text() -> None:
    check(
        marked("hermes"), f"<think>\nhm\n</think>\n\nHi\n{HERMES}", ("<think>\nhm\n</think>\n\nHi", "", [PARIS])
    )


@pytest.mark.parametrize("choice", [None, "auto", "required", NAMED])
def test_without_a_tool_call_parser_calls_are_text(choice: Any) -> None:
    check(marked(None, "qwen3"), f"<think>hm</think>{HERMES}", (HERMES, "hm", []), tool_choice=choice)


# --- choices --------------------------------------------------------------------------------------------------

UNMARKED: Final = '\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n'
BARE: Final = '{"name": "get_weather", "parameters": {"city": "Paris"}}'
BARE_TIME: Final = '{"name": "get_time", "parameters": {}}'


@pytest.mark.parametrize(
    "request_", [{"tool_choice": "none"}, {"tools": []}, {"tools": [], "tool_choice": "auto"}]
)
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (f"Hi {HERMES}", (f"Hi {UNMARKED}", "", [])),
        (f"<think>hm</think>{HERMES}", (UNMARKED, "hm", [])),
        (f"[{BARE}]", (f"[{BARE}]", "", [])),
        ('{"city": "Paris"}', ('{"city": "Paris"}', "", [])),
    ],
)
def test_where_no_calls_are_wanted_they_are_content_without_markers(
    request_: dict[str, Any], output: str, expected: Expected
) -> None:
    check_complete(marked("hermes", "qwen3"), output, expected, **request_)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(f"[{BARE}]", ("", "", [PARIS]), id="a list"),
        pytest.param(f" \n[ {BARE},{BARE_TIME} ]\n", ("", "", [PARIS, TIME]), id="a list of two"),
        pytest.param(BARE, ("", "", [PARIS]), id="an object"),
        pytest.param(f"<think>hm</think>\n\n[{BARE}]", ("", "hm", [PARIS]), id="after reasoning"),
        pytest.param(HERMES, ("", "", [PARIS]), id="markup"),
        pytest.param(f"Hi {HERMES}{HERMES_TIME}", ("Hi", "", [PARIS, TIME]), id="text and markup"),
        pytest.param(f"<think>hm</think>{HERMES}", ("", "hm", [PARIS]), id="markup after reasoning"),
        pytest.param("Hi", ("Hi", "", []), id="no call"),
        pytest.param("[1]", ("[1]", "", []), id="another list"),
        pytest.param("[]", ("[]", "", []), id="an empty list"),
        pytest.param(f"Hi [{BARE}]", (f"Hi [{BARE}]", "", []), id="a list in text"),
    ],
)
def test_required_calls_are_bare_json_or_markup(output: str, expected: Expected) -> None:
    check_complete(marked("hermes", "qwen3"), output, expected, tool_choice="required")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (f"[{BARE}, {BARE_TIME[:12]}", ("", "", [PARIS])),
        (f"[{BARE}", ("", "", [PARIS])),
        (f"[{BARE[:-4]}", (f"[{BARE[:-4]}", "", [])),
        ("[", ("[", "", [])),
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_of_required_calls_that_are_cut_the_complete_count(output: str, expected: Expected, cut: bool) -> None:
    check(marked("hermes", "qwen3"), output, expected, tool_choice="required", cut=cut)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param('{"city": "Paris"}', ("", "", [PARIS]), id="arguments"),
        pytest.param(' \n{"city": "Paris"}\n', ("", "", [PARIS]), id="arguments in white space"),
        pytest.param("{}", ("", "", [("get_weather", "{}")]), id="no arguments"),
        pytest.param('<think>hm</think>\n{"city": "Paris"}', ("", "hm", [PARIS]), id="after reasoning"),
        pytest.param(BARE, ("", "", [PARIS]), id="a whole call"),
        pytest.param(BARE.replace("parameters", "arguments"), ("", "", [PARIS]), id="a whole call, arguments"),
        pytest.param(f"[{BARE}]", ("", "", [PARIS]), id="a list of a call"),
        pytest.param(
            '{"name": "Paris", "arguments": "x"}',
            ("", "", [("get_weather", '{"name": "Paris", "arguments": "x"}')]),
            id="arguments that look like a call",
        ),
        pytest.param(HERMES, ("", "", [PARIS]), id="markup"),
        pytest.param("Hi", ("Hi", "", []), id="text"),
        pytest.param('"Paris"', ('"Paris"', "", []), id="another value"),
        pytest.param("[1]", ("[1]", "", []), id="another list"),
    ],
)
def test_a_named_tools_arguments_are_bare(output: str, expected: Expected) -> None:
    check_complete(marked("hermes", "qwen3"), output, expected, tool_choice=NAMED)


@pytest.mark.parametrize("output", ['{"city": "Pa', '{"city": oops}', "{", '{"city"'])
def test_a_named_tools_arguments_that_are_none_are_content(output: str) -> None:
    check(marked("hermes", "qwen3"), output, (output, "", []), tool_choice=NAMED)
    check(marked("hermes", "qwen3"), output, (output, "", []), tool_choice=NAMED, cut=True)


def test_a_tool_need_not_be_offered_to_be_forced() -> None:
    check(marked("hermes", "qwen3"), '{"city": "Paris"}', ("", "", [PARIS]), tools=[], tool_choice=NAMED)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_of_calls_that_may_not_be_parallel_the_first_counts(count: int) -> None:
    output = f"Hi {HERMES}{HERMES_TIME * (count - 1)}"
    check_complete(marked("hermes", "qwen3"), output, ("Hi", "", [PARIS]), parallel_tool_calls=False)
    listed = f"[{', '.join([BARE, *[BARE_TIME] * (count - 1)])}]"
    request = {"tool_choice": "required", "parallel_tool_calls": False}
    check_complete(marked("hermes", "qwen3"), listed, ("", "", [PARIS]), **request)


# --- calls as they come ---------------------------------------------------------------------------------------


def test_the_first_call_is_given_from_its_name_on() -> None:
    parser = request_parser(marked("hermes"), tools=TOOLS)
    output = pieces_of(parser, HERMES.partition("Par")[0])
    assert joined_so_far(parser, output) == [("get_weather", '{"city": "')]


def test_a_later_call_is_given_once_it_is_complete() -> None:
    parser = request_parser(marked("hermes"), tools=TOOLS)
    begun = pieces_of(parser, HERMES + HERMES.partition("Par")[0])
    assert joined_so_far(parser, begun) == [PARIS]
    assert joined_so_far(parser, pieces_of(parser, HERMES + HERMES)) == [PARIS, PARIS]


def test_a_later_call_that_is_long_is_given_as_it_comes() -> None:
    parser = request_parser(marked("hermes"), tools=TOOLS)
    begun = pieces_of(parser, HERMES + HERMES.partition("Par")[0] + "x" * 500)
    assert joined_so_far(parser, begun) == [PARIS, ("get_weather", '{"city": "' + "x" * 500)]


def test_whole_calls_are_given_once_they_are_complete() -> None:
    parser = request_parser(marked("hermes"), tools=TOOLS, whole_calls=True)
    begun = pieces_of(parser, HERMES + HERMES.partition("Par")[0] + "x" * 500)
    assert joined_so_far(parser, begun) == [PARIS]


def joined_so_far(parser: Parser, pieces: list[Piece]) -> list[tuple[str, str]]:
    """The calls that pieces bring before the output ends."""
    events, _ = parse(parser, start(parser, None), pieces)
    return joined(events).calls


# --- Hermes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hermes", "qwen3_json"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(HERMES, ("", "", [PARIS]), id="a call"),
        pytest.param(f"Hi\n\n{HERMES}", ("Hi", "", [PARIS]), id="after text"),
        pytest.param(f"{HERMES}\n{HERMES_TIME}", ("", "", [PARIS, TIME]), id="two"),
        pytest.param(f"<think>\nhm\n</think>\n\n{HERMES}", ("", "hm", [PARIS]), id="after reasoning"),
        pytest.param(f"<think>\nhm\n{HERMES}", ("", "hm", [PARIS]), id="in reasoning"),
        pytest.param(f"{HERMES}\nBye", ("\nBye", "", [PARIS]), id="before text"),
        pytest.param(
            '<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>', ("", "", [("f", '{"a":1}')]), id="dense"
        ),
        pytest.param(
            '<tool_call>{"arguments": {}, "name": "f"}</tool_call>', ("", "", [("f", "{}")]), id="name last"
        ),
        pytest.param('<tool_call>{"name": "f"}</tool_call>', ("", "", [("f", "{}")]), id="no arguments"),
        pytest.param(f"<tool_call>[{BARE}, {BARE_TIME}]</tool_call>", ("", "", [PARIS, TIME]), id="a list"),
        pytest.param(
            '<tool_call>{"name": "f", "arguments": {"a": "<tool_call></tool_call></think>"}}</tool_call>',
            ("", "", [("f", '{"a": "<tool_call></tool_call></think>"}')]),
            id="markers in a string",
        ),
        pytest.param(f"[{BARE}]", (f"[{BARE}]", "", []), id="no markup"),
    ],
)
def test_hermes(name: str, output: str, expected: Expected) -> None:
    check_complete(marked(name, "qwen3"), output, expected)


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
def test_what_is_no_call_comes_back_as_it_was(output: str) -> None:
    check(marked("hermes", "qwen3"), output, (output, "", []))
    check(marked("hermes", "qwen3"), output + HERMES, (output, "", [PARIS]))
    check(marked("hermes", "qwen3"), HERMES + output, (output, "", [PARIS]))


@pytest.mark.parametrize(
    ("output", "cut", "expected"),
    [
        pytest.param(HERMES[:-20], False, (UNMARKED[:-8], "", []), id="in arguments"),
        pytest.param(HERMES[:-20], True, (UNMARKED[:-8], "", []), id="in arguments, at a length"),
        pytest.param(HERMES[:-13], False, ("", "", [PARIS]), id="before the end marker"),
        pytest.param(HERMES[:-12], False, ("", "", [PARIS]), id="before the end marker, on a new line"),
        pytest.param(HERMES[:-12], True, (UNMARKED, "", []), id="before the end marker, at a length"),
        pytest.param("Hi\n<tool_call>", False, ("Hi", "", []), id="nothing in it"),
        pytest.param(HERMES + HERMES[:-20], False, ("", "", [PARIS]), id="beside a call"),
        pytest.param(HERMES + HERMES[:-20], True, ("", "", [PARIS]), id="beside a call, at a length"),
        pytest.param(HERMES + HERMES[:-13], False, ("", "", [PARIS, PARIS]), id="beside a call, complete"),
    ],
)
def test_of_a_call_that_is_cut_its_text_is_left_unless_there_is_another(
    output: str, cut: bool, expected: Expected
) -> None:
    check(marked("hermes", "qwen3"), output, expected, cut=cut)


def test_whatever_is_called_is_a_call_where_it_is_marked() -> None:
    check(marked("hermes"), '<tool_call>{"name": "nosuch"}</tool_call>', ("", "", [("nosuch", "{}")]))


# --- Qwen3-Coder ----------------------------------------------------------------------------------------------


def qwen(*parameters: str, name: str = "get_weather") -> str:
    return f"<tool_call>\n<function={name}>\n{''.join(parameters)}</function>\n</tool_call>"


def parameter(key: str, value: str) -> str:
    return f"<parameter={key}>\n{value}\n</parameter>\n"


@pytest.mark.parametrize("name", ["qwen3_xml", "qwen3_coder"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(qwen(parameter("city", "Paris")), ("", "", [PARIS]), id="a call"),
        pytest.param(qwen(name="get_time"), ("", "", [TIME]), id="no parameters"),
        pytest.param(
            f"Hi\n\n{qwen(name='get_time')}\n{qwen(name='get_time')}", ("Hi", "", [TIME, TIME]), id="two"
        ),
        pytest.param(f"<think>hm\n{qwen(name='get_time')}", ("", "hm", [TIME]), id="in reasoning"),
        pytest.param(f"<think>hm</think>\n\n{qwen(name='get_time')}", ("", "hm", [TIME]), id="after reasoning"),
        pytest.param("<function=get_time>\n</function>", ("", "", [TIME]), id="no markers"),
        pytest.param("<function=get_time>\n</function>\n</tool_call>", ("", "", [TIME]), id="no first marker"),
        pytest.param(
            qwen(
                *(
                    parameter(*each)
                    for each in {"city": "5", "days": "5", "exact": "True", "until": "null"}.items()
                )
            ),
            ("", "", [("get_weather", '{"city": "5", "days": 5, "exact": true, "until": null}')]),
            id="types",
        ),
        pytest.param(
            qwen(parameter("where", "{'x': [1, None]}"), parameter("tags", '["a"]')),
            ("", "", [("get_weather", '{"where": {"x": [1, null]}, "tags": ["a"]}')]),
            id="objects and arrays",
        ),
        pytest.param(
            qwen(parameter("days", "two"), parameter("until", "1.5")),
            ("", "", [("get_weather", '{"days": "two", "until": "1.5"}')]),
            id="of no type it may have",
        ),
        pytest.param(
            qwen(parameter("x", "5"), name="nosuch"),
            ("", "", [("nosuch", '{"x": 5}')]),
            id="a tool not offered",
        ),
        pytest.param(
            qwen(parameter("city", "\n a\n\nb \n")),
            ("", "", [("get_weather", r'{"city": "\n a\n\nb \n"}')]),
            id="white space in a value",
        ),
        pytest.param(
            qwen(parameter("city", "")), ("", "", [("get_weather", '{"city": ""}')]), id="an empty value"
        ),
        pytest.param(qwen("<parameter=city>Paris</parameter>"), ("", "", [PARIS]), id="on one line"),
        pytest.param(
            qwen(parameter("city", 'a</parameter>b "<c>"')),
            ("", "", [("get_weather", r'{"city": "a</parameter>b \"<c>\""}')]),
            id="markup in a value",
        ),
        pytest.param(
            qwen(parameter("city", "A"), parameter("city", "B"), parameter("days", "1")),
            ("", "", [("get_weather", '{"city": "A", "days": 1}')]),
            id="a parameter twice",
        ),
        pytest.param(
            qwen("<parameter=city>\nParis\n", parameter("days", "1")),
            ("", "", [("get_weather", '{"city": "Paris", "days": 1}')]),
            id="no end of a value",
        ),
        pytest.param(qwen("<parameter=city>\nParis\n"), ("", "", [PARIS]), id="no end of the last value"),
    ],
)
def test_qwen_xml(name: str, output: str, expected: Expected) -> None:
    check_complete(marked(name, "qwen3"), output, expected)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(qwen(parameter("city", "Paris"))[:-13], ("", "", [PARIS]), id="the end marker"),
        pytest.param("<tool_call>oops</tool_call>", ("<tool_call>oops</tool_call>", "", []), id="all"),
        pytest.param("Hi <function=", ("Hi", "", []), id="the name"),
        pytest.param(
            "<tool_call>\n<function=get_time>\n",
            ("<tool_call>\n<function=get_time>\n", "", []),
            id="the end of the function",
        ),
        pytest.param(
            qwen(parameter("city", "Paris"))[:50],
            ("\nget_weather>\ncity", "", []),
            id="a value",
        ),
        pytest.param(
            qwen(name="get_time") + "<tool_call>\n<function=f>", ("", "", [TIME]), id="all, beside a call"
        ),
    ],
)
def test_qwen_xml_that_misses(output: str, expected: Expected) -> None:
    check(marked("qwen3_xml", "qwen3"), output, expected)


# --- GLM ------------------------------------------------------------------------------------------------------


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
def test_glm_arguments(name: str, between: str, arguments: dict[str, str], expected: str) -> None:
    output = glm("get_weather", between, **arguments)
    check_complete(marked(name, "glm45"), output, ("", "", [("get_weather", expected)]))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(
            f"\n<think>hm</think>\nHi\n{glm('get_time')}\n{glm('get_weather', city='Paris')}",
            ("Hi", "hm", [TIME, PARIS]),
            id="reasoning, text and two calls",
        ),
        pytest.param(f"<think>hm{glm('get_time')}", ("", "hm", [TIME]), id="in reasoning"),
        pytest.param(glm("get_time") + "Bye", ("Bye", "", [TIME]), id="before text"),
        pytest.param(
            "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</tool_call>",
            ("", "", [PARIS]),
            id="no end of the last value",
        ),
        pytest.param(
            glm("get_weather", city="A").replace("</tool_call>", "") + glm("f", city="B").partition("f")[2],
            ("", "", [("get_weather", '{"city": "A"}')]),
            id="a parameter twice",
        ),
        pytest.param(
            "<tool_call>get weather</tool_call>", ("<tool_call>get weather</tool_call>", "", []), id="no name"
        ),
    ],
)
def test_glm(output: str, expected: Expected) -> None:
    check_complete(marked("glm45", "glm45"), output, expected)


# --- Gemma ----------------------------------------------------------------------------------------------------


def gemma(arguments: str, name: str = "get_weather") -> str:
    return f"<|tool_call>call:{name}{{{arguments}}}<tool_call|>".replace("^", '<|"|>')


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(gemma("city:^Paris^"), ("", "", [PARIS]), id="a call"),
        pytest.param(gemma("", "get_time") + gemma("city:^Paris^"), ("", "", [TIME, PARIS]), id="two"),
        pytest.param(
            gemma("days:2,where:{a b:[1,true,null]},tags:[^x^]"),
            ("", "", [("get_weather", '{"days": 2, "where": {"a b": [1, true, null]}, "tags": ["x"]}')]),
            id="values",
        ),
        pytest.param(
            gemma('city:^{a}"\\n,<tool_call|>^'),
            ("", "", [("get_weather", r'{"city": "{a}\"\\n,<tool_call|>"}')]),
            id="anything in a string",
        ),
        pytest.param(
            f"<|channel>thought\nhm<channel|>{gemma('city:^Paris^')}", ("", "hm", [PARIS]), id="after reasoning"
        ),
        pytest.param(f"<|channel>thought\nhm{gemma('city:^Paris^')}", ("", "hm", [PARIS]), id="in reasoning"),
        pytest.param("<|channel>thought\nhm\n<channel|>\nHi", ("Hi", "hm", []), id="reasoning"),
        pytest.param("<|channel>thought\n<channel|>Hi", ("Hi", "", []), id="empty reasoning"),
        pytest.param("<|channel>thought\nhm", ("", "hm", []), id="reasoning cut"),
        pytest.param("Hi\n", ("Hi\n", "", []), id="text"),
    ],
)
def test_gemma(output: str, expected: Expected) -> None:
    check_complete(marked("gemma4", "gemma4"), output, expected)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param("<|tool_call>oops<tool_call|>", ("<|tool_call>oops<tool_call|>", "", []), id="no call"),
        pytest.param(gemma("a:1,,"), (gemma("a:1,,"), "", []), id="no arguments"),
        pytest.param(gemma("city:^Paris^")[:-12], ("", "", [PARIS]), id="no end marker"),
        pytest.param(gemma("city:^Paris^")[:-18], ("call:get_weather{city:Paris", "", []), id="cut"),
    ],
)
def test_gemma_at_fault(output: str, expected: Expected) -> None:
    check(marked("gemma4", "gemma4"), output, expected)


# --- DeepSeek -------------------------------------------------------------------------------------------------

V3_CALL: Final = (
    '<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Paris"}\n```<｜tool▁call▁end｜>'
)
V31_CALL: Final = '<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜>'


@pytest.mark.parametrize(("name", "call"), [("deepseek_v3", V3_CALL), ("deepseek_v31", V31_CALL)])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("{0}", ("", "", [PARIS])),
        ("Hi\n{0}", ("Hi", "", [PARIS])),
        ("{0}Bye", ("Bye", "", [PARIS])),
        ("{1}", ("", "", [PARIS, PARIS])),
        ("<think>\nhm\n</think>\n\nHi\n\n{0}", ("Hi", "hm", [PARIS])),
        ("<think>hm{0}", ("", "hm", [PARIS])),
    ],
)
def test_deepseek(name: str, call: str, output: str, expected: Expected) -> None:
    texts = [f"<｜tool▁calls▁begin｜>{call * count}<｜tool▁calls▁end｜>" for count in (1, 2)]
    check_complete(marked(name, "deepseek_v3"), output.format(*texts), expected)


@pytest.mark.parametrize(("name", "call"), [("deepseek_v3", V3_CALL), ("deepseek_v31", V31_CALL)])
def test_deepseek_that_misses_its_ends(name: str, call: str) -> None:
    begun = f"<｜tool▁calls▁begin｜>{call}"
    parsers = marked(name, "deepseek_v3")
    check(parsers, begun, ("", "", [PARIS]))
    check(parsers, begun.removesuffix("<｜tool▁call▁end｜>"), ("", "", [PARIS]))
    check(parsers, begun.replace("call▁end", "calls▁end") + "Bye", ("Bye", "", [PARIS]))
    check(parsers, begun + call.partition("Par")[0], ("", "", [PARIS]))
    text = call.partition("Par")[0].replace("<｜tool▁call▁begin｜>", "").replace("<｜tool▁sep｜>", "")
    check(parsers, f"<｜tool▁calls▁begin｜>{call}".partition("Par")[0], (text, "", []))


def test_deepseek_arguments_may_be_missing() -> None:
    call = "<｜tool▁call▁begin｜>get_time<｜tool▁sep｜><｜tool▁call▁end｜>"
    output = f"<｜tool▁calls▁begin｜>{call}<｜tool▁calls▁end｜>"
    check_complete(marked("deepseek_v31"), output, ("", "", [TIME]))


DSML: Final = {
    "deepseek_v32": ("function_calls", ""),
    "deepseek_v4": ("tool_calls", ""),
    "deepseek_v41": ("calls", " "),
}


def dsml(name: str, *invokes: str) -> str:
    """A block of calls, `|` for DSML's marker."""
    calls, space = DSML[name]
    text = f"<|{calls}>\n{''.join(invokes)}</|{calls}>"
    return text.replace("|", f"｜DSML｜{space}")


def invoke(*parameters: str, tool: str = "get_weather") -> str:
    return f'<|invoke name="{tool}">\n{"".join(parameters)}</|invoke>\n'


def dsml_parameter(key: str, value: str, string: str | None = None) -> str:
    written = f' string="{string}"' if string else ""
    return f'<|parameter name="{key}"{written}>{value}</|parameter>\n'


@pytest.mark.parametrize("name", sorted(DSML))
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        pytest.param([], "{}", id="none"),
        pytest.param([("city", "Paris", "true")], '{"city": "Paris"}', id="a string"),
        pytest.param(
            [("city", "5", "true"), ("x", "5", "false")], '{"city": "5", "x": 5}', id="strings and JSON"
        ),
        pytest.param(
            [("x", '"a"', "false"), ("y", "oops", "false")], '{"x": "a", "y": "oops"}', id="JSON strings"
        ),
        pytest.param([("where", '{"a": [1]}', "false")], '{"where": {"a": [1]}}', id="JSON objects"),
        pytest.param(
            [("days", "5", None), ("city", "5", None)], '{"days": 5, "city": "5"}', id="by the schema"
        ),
        pytest.param([("city", " a\n", "true")], r'{"city": " a\n"}', id="white space"),
        pytest.param([("city", "a</|parameter>b", "true")], '{"city": "a</|parameter>b"}', id="markup"),
        pytest.param([("city", "A", "true"), ("city", "B", "true")], '{"city": "A"}', id="twice"),
    ],
)
def test_dsml(name: str, parameters: list[tuple[str, str, str | None]], expected: str) -> None:
    output = dsml(name, invoke(*(dsml_parameter(*each) for each in parameters)))
    expected = expected.replace("|", f"｜DSML｜{DSML[name][1]}")
    check_complete(marked(name, "deepseek_v3"), output, ("", "", [("get_weather", expected)]))


@pytest.mark.parametrize("name", sorted(DSML))
def test_dsml_in_an_output(name: str) -> None:
    paris = invoke(dsml_parameter("city", "Paris", "true"))
    parsers = marked(name, "deepseek_v3")
    output = f"<think>hm</think>Hi\n\n{dsml(name, paris, invoke(tool='get_time'))}"
    check_complete(parsers, output, ("Hi", "hm", [PARIS, TIME]))
    check_complete(parsers, f"<think>hm\n{dsml(name, paris)}", ("", "hm", [PARIS]))
    check_complete(parsers, dsml(name, '<|invoke name="get_time"/>'), ("", "", [TIME]))
    check(parsers, dsml(name, paris, paris).rpartition("Par")[0], ("", "", [PARIS]))


# --- Kimi -----------------------------------------------------------------------------------------------------


def kimi(name: str, arguments: str, number: int = 0) -> str:
    return (
        f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
    )


def section(*calls: str) -> str:
    return f"<|tool_calls_section_begin|>{''.join(calls)}<|tool_calls_section_end|>"


KIMI: Final = [
    pytest.param(section(kimi(*PARIS)), ("", "", [PARIS]), id="a call"),
    pytest.param(section(kimi(*PARIS), kimi(*TIME, 1)), ("", "", [PARIS, TIME]), id="two"),
    pytest.param(f"Hi{section(kimi(*PARIS))}Bye", ("HiBye", "", [PARIS]), id="in text"),
    pytest.param(f"<think>hm</think>Hi{section(kimi(*PARIS))}", ("Hi", "hm", [PARIS]), id="after reasoning"),
    pytest.param(f"<think>hm{section(kimi(*PARIS))}", ("", "hm", [PARIS]), id="in reasoning"),
    pytest.param(section(kimi(*PARIS).replace("functions.", "")), ("", "", [PARIS]), id="a name alone"),
    pytest.param(section(), ("", "", []), id="no call"),
]
KIMI_THAT_MISSES: Final = [
    pytest.param(section(kimi(*PARIS))[:-26], ("", "", [PARIS]), id="the section's end"),
    pytest.param(section(kimi(*PARIS)[:-17]), ("", "", [PARIS]), id="the call's end"),
    pytest.param(section(kimi(*PARIS)[:-17], kimi(*TIME)), ("", "", [PARIS, TIME]), id="the first call's end"),
    pytest.param(section(kimi(*PARIS))[:-43], ("", "", [PARIS]), id="both ends"),
    pytest.param(kimi(*PARIS), (kimi(*PARIS), "", []), id="the section"),
]


@pytest.mark.parametrize(("output", "expected"), KIMI)
def test_kimi_k2(output: str, expected: Expected) -> None:
    check_complete(marked("kimi_k2", "qwen3"), output, expected)


@pytest.mark.parametrize(("output", "expected"), KIMI_THAT_MISSES)
def test_kimi_k2_that_misses(output: str, expected: Expected) -> None:
    check(marked("kimi_k2", "qwen3"), output, expected)


@pytest.mark.parametrize(("output", "expected"), KIMI + KIMI_THAT_MISSES)
def test_markers_are_text_where_the_vocabulary_has_no_token_of_them(
    bundled: Vocabulary, output: str, expected: Expected
) -> None:
    parsers = load_parsers(bundled, "kimi_k2", "qwen3")
    assert parsers is not None
    check(parsers, output, expected)


def test_kimi_k2_calls_have_the_numbers_that_the_model_gave_them() -> None:
    parser = request_parser(marked("kimi_k2"), tools=TOOLS, whole_calls=True)
    events = events_of(parser, [pieces_of(parser, section(kimi(*PARIS, 4), kimi(*TIME, 12)))])
    assert [event.written_id for event in events if isinstance(event, CallStart)] == ["4", "12"]


def test_kimi_k2_may_write_a_marker_in_place_of_arguments() -> None:
    check_complete(marked("kimi_k2"), section(kimi("get_time", "")), ("", "", [TIME]))


def element(name: str, inside: str, attributes: str = "") -> str:
    return f"<|open|>{name}{attributes}<|sep|>{inside}<|close|>{name}<|sep|>"


def k3_call(name: str, **arguments: tuple[str, str]) -> str:
    written = [
        element("argument", value, f' key="{key}" type="{kind}"') for key, (kind, value) in arguments.items()
    ]
    return element("call", "".join(written), f' tool="{name}" index="1"')


K3_PARIS: Final = k3_call("get_weather", city=("string", "Paris"))
K3_DONE: Final = "<|close|>message<|sep|><|end_of_msg|>"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(
            element("think", "hm") + element("response", "Hi") + K3_DONE, ("Hi", "hm", []), id="an answer"
        ),
        pytest.param(
            f"hm<|close|>think<|sep|>{element('response', 'Hi')}", ("Hi", "hm", []), id="reasoning is open"
        ),
        pytest.param(
            element("think", "hm") + element("response", "Hi") + element("tools", K3_PARIS) + K3_DONE,
            ("Hi", "hm", [PARIS]),
            id="an answer and a call",
        ),
        pytest.param(
            element("think", "") + element("tools", K3_PARIS + k3_call("get_time")),
            ("", "", [PARIS, TIME]),
            id="two calls",
        ),
        pytest.param(
            element("think", "")
            + element(
                "tools",
                k3_call("f", a=("string", "5"), b=("number", "5"), c=("object", '{"x":1}'), d=("null", "null")),
            ),
            ("", "", [("f", '{"a": "5", "b": 5, "c": {"x":1}, "d": null}')]),
            id="types",
        ),
        pytest.param(
            element("think", "") + element("tools", K3_PARIS.replace("city", "a&quot;&amp;b")),
            ("", "", [("get_weather", r'{"a\"&b": "Paris"}')]),
            id="a key with entities",
        ),
        pytest.param("hm", ("", "hm", []), id="reasoning cut"),
        pytest.param("<|open|>think<|sep|>hm", ("", "hm", []), id="reasoning cut in its element"),
    ],
)
def test_kimi_k3(output: str, expected: Expected) -> None:
    check_complete(marked("kimi_k3", "kimi_k3"), output, expected)


def test_kimi_k3_answers_where_thinking_is_off() -> None:
    output = f"Hi<|close|>response<|sep|>{element('tools', K3_PARIS)}"
    off = {"chat_template_kwargs": {"thinking": False}}
    check_complete(marked("kimi_k3", "kimi_k3"), output, ("Hi", "", [PARIS]), **off)


# --- Llama ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama3_json", "llama4_json"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(BARE, ("", "", [PARIS]), id="a call"),
        pytest.param(f" \n{BARE}\n", ("", "", [PARIS]), id="in white space"),
        pytest.param(BARE.replace("parameters", "arguments"), ("", "", [PARIS]), id="arguments"),
        pytest.param('{"type": "function", ' + BARE[1:], ("", "", [PARIS]), id="a type"),
        pytest.param(f"<|python_tag|>{BARE}", ("", "", [PARIS]), id="a tag"),
        pytest.param(f"Hi <|python_tag|>{BARE}", ("Hi ", "", [PARIS]), id="text and a tag"),
        pytest.param(f"{BARE}; {BARE_TIME}", ("", "", [PARIS, TIME]), id="two"),
        pytest.param(f"{BARE}\n{BARE_TIME}", ("", "", [PARIS, TIME]), id="two on lines"),
        pytest.param(f"{BARE} Bye", (" Bye", "", [PARIS]), id="before text"),
        pytest.param("Hi", ("Hi", "", []), id="text"),
    ],
)
def test_llama_json(name: str, output: str, expected: Expected) -> None:
    check_complete(marked(name), output, expected)


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
def test_json_that_is_no_call_of_a_tool_is_content(output: str) -> None:
    check(marked("llama3_json"), output, (output, "", []))


# --- Python ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pythonic", "llama4_pythonic"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param('[get_weather(city="Paris")]', ("", "", [PARIS]), id="a call"),
        pytest.param(" [ get_weather ( city = 'Paris' ) ] ", ("", "", [PARIS]), id="much space"),
        pytest.param("[get_weather(city='Paris'), get_time()]", ("", "", [PARIS, TIME]), id="two"),
        pytest.param(
            "[get_weather(city='Paris'),\n get_time(),\n]", ("", "", [PARIS, TIME]), id="two on lines"
        ),
        pytest.param(
            "[get_weather(days=-2, exact=True, until=None, tags=['x', \"y\"])]",
            (
                "",
                "",
                [
                    (
                        "get_weather",
                        '{"days": -2, "exact": true, "until": null, "tags": ["x", "y"]}',
                    )
                ],
            ),
            id="values",
        ),
        pytest.param(
            "[get_weather(city='a), b]\\n')]",
            ("", "", [("get_weather", r'{"city": "a), b]\n"}')]),
            id="a string",
        ),
        pytest.param("[get_time()] Bye", (" Bye", "", [TIME]), id="before text"),
    ],
)
def test_pythonic(name: str, output: str, expected: Expected) -> None:
    check_complete(marked(name), output, expected)


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
        "[get_time()",
        "get_time()",
    ],
)
def test_what_is_no_list_of_calls_of_tools_is_content(output: str) -> None:
    check(marked("pythonic"), output, (output, "", []))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("<|python_start|>[get_time()]<|python_end|>", ("", "", [TIME])),
        ("Hi\n<|python_start|>[get_time()]<|python_end|>", ("Hi", "", [TIME])),
        ("<|python_start|>[get_time()]", ("", "", [TIME])),
    ],
)
def test_llama_4_may_put_the_list_between_markers(output: str, expected: Expected) -> None:
    check_complete(marked("llama4_pythonic"), output, expected)


# --- Mistral --------------------------------------------------------------------------------------------------

MISTRAL_LIST: Final = '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}]'
MISTRAL: Final = '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}'


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(MISTRAL_LIST, ("", "", [PARIS]), id="a list"),
        pytest.param(
            MISTRAL_LIST[:-1] + ', {"name": "get_time"}]', ("", "", [PARIS, TIME]), id="a list of two"
        ),
        pytest.param(MISTRAL, ("", "", [PARIS]), id="a call"),
        pytest.param(f"Hi{MISTRAL}[TOOL_CALLS]get_time[ARGS]{{}}", ("Hi", "", [PARIS, TIME]), id="two"),
        pytest.param(MISTRAL.replace("[ARGS]", ""), ("", "", [PARIS]), id="without a marker of arguments"),
        pytest.param(MISTRAL.replace("[ARGS]", "[CALL_ID]abc123DEF[ARGS]"), ("", "", [PARIS]), id="an id"),
        pytest.param(f"[THINK]hm[/THINK]{MISTRAL}", ("", "hm", [PARIS]), id="after reasoning"),
        pytest.param(f"[THINK]{MISTRAL}[/THINK]Hi", ("Hi", MISTRAL, []), id="markers quoted in reasoning"),
        pytest.param("<think>\nhm\n</think>\nHi", ("Hi", "hm", []), id="reasoning in text"),
        pytest.param("[THINK]hm", ("", "hm", []), id="reasoning cut"),
        pytest.param("Hi", ("Hi", "", []), id="text"),
    ],
)
def test_mistral(output: str, expected: Expected) -> None:
    check_complete(marked("mistral", "mistral", frozenset({"<think>", "</think>"})), output, expected)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (MISTRAL[:-4], ('get_weather{"city": "Par', "", [])),
        (MISTRAL_LIST[:-5], (MISTRAL_LIST[12:-5].strip(), "", [])),
        (MISTRAL_LIST[:-1] + ', {"na', ("", "", [PARIS])),
        (MISTRAL + MISTRAL[:-4], ("", "", [PARIS])),
    ],
)
def test_mistral_that_is_cut(output: str, expected: Expected) -> None:
    parser = request_parser(marked("mistral"), tools=TOOLS, whole_calls=True)
    content, *rest = said(parser, output, cut=True)
    assert (content.strip(), *rest) == expected


def test_mistral_calls_may_have_an_id() -> None:
    parser = request_parser(marked("mistral"), tools=TOOLS, whole_calls=True)
    output = "[TOOL_CALLS]get_time[CALL_ID]abc123DEF[ARGS]{}[TOOL_CALLS]get_time[ARGS]{}"
    events = events_of(parser, [pieces_of(parser, output)])
    assert [event.written_id for event in events if isinstance(event, CallStart)] == ["abc123DEF", ""]


# --- gpt-oss --------------------------------------------------------------------------------------------------


def message(channel: str, text: str, end: str = "<|end|>", start: str = "<|start|>assistant") -> str:
    return f"{start}<|channel|>{channel}<|message|>{text}{end}"


def harmony_call(arguments: str, to: str = "functions.get_weather") -> str:
    return message(f"commentary to={to} <|constrain|>json", arguments, "<|call|>")


THOUGHT: Final = message("analysis", "hm", start="")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(message("final", "Hi", "", start=""), ("Hi", "", []), id="an answer"),
        pytest.param(
            THOUGHT + message("final", "Hi", "<|return|>"), ("Hi", "hm", []), id="reasoning and an answer"
        ),
        pytest.param(
            THOUGHT + message("analysis", "mm") + message("final", "Hi"),
            ("Hi", "hmmm", []),
            id="more reasoning",
        ),
        pytest.param(THOUGHT + harmony_call(PARIS[1]), ("", "hm", [PARIS]), id="a call"),
        pytest.param(
            harmony_call(PARIS[1]) + harmony_call("{}", "functions.get_time"), ("", "", [PARIS, TIME]), id="two"
        ),
        pytest.param(
            THOUGHT + message("commentary", "Let me.") + harmony_call(PARIS[1]),
            ("Let me.", "hm", [PARIS]),
            id="a preamble and a call",
        ),
        pytest.param(
            THOUGHT
            + message("commentary", PARIS[1], "<|call|>", "<|start|>assistant to=functions.get_weather"),
            ("", "hm", [PARIS]),
            id="whom it is for comes first",
        ),
        pytest.param(
            message("commentary to=functions.get_weather", PARIS[1], ""),
            ("", "", [PARIS]),
            id="no end of a call",
        ),
        pytest.param(
            message("commentary to=functions.get_time ", "", "<|call|>"), ("", "", [TIME]), id="no arguments"
        ),
        pytest.param(
            message("commentary to=browser.search", '{"a": 1}', "<|call|>"), ("", "", []), id="an own tool"
        ),
        pytest.param(
            message("analysis to=python code", "1+1", "<|call|>"), ("", "", []), id="an own tool's code"
        ),
        pytest.param(
            message("final <|constrain|>json", '{"a": 1}', "<|return|>"),
            ('{"a": 1}', "", []),
            id="an answer in JSON",
        ),
        pytest.param(message("analysis", "hm", "", start=""), ("", "hm", []), id="reasoning cut"),
        pytest.param(f"{THOUGHT}<|start|>assistant<|channel|>fin", ("", "hm", []), id="a header cut"),
        pytest.param("Hi", ("Hi", "", []), id="text"),
        pytest.param(
            harmony_call('{"city": "<|end|><|start|>"}'),
            ("", "", [("get_weather", '{"city": "<|end|><|start|>"}')]),
            id="markers in a string",
        ),
    ],
)
def test_harmony(output: str, expected: Expected) -> None:
    check_complete(marked("openai", "openai_gptoss"), output, expected)


def test_harmony_without_a_reasoning_parser_is_all_content() -> None:
    check(marked("openai"), THOUGHT + message("final", "Hi"), ("hmHi", "", []))


def test_harmony_calls_that_are_not_wanted_are_content() -> None:
    output = THOUGHT + harmony_call(PARIS[1])
    check(marked("openai", "openai_gptoss"), output, (PARIS[1], "hm", []), tool_choice="none")
