"""The parsers there are: by name, in pairs, and for a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.parsing import (
    AUTO,
    ParserError,
    ToolChoice,
    ToolChoiceError,
    load_parsers,
    offered_tools,
    parse_tool_choice,
)
from derender.parsing.engine.format import Act, Arguments, CallObjects, Ids, Shows, Text, Value
from tests.support.parsers import request_parser

from .support import NAMES, REASONING_NAMES, TOOL_NAMES, TOOLS, WHOLE, go_together, marked, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from derender.parsing.engine.grammar import Grammar
    from derender.vocabulary import Vocabulary

PAIRS: Final = [pair for pair in NAMES if go_together(*pair)]
NAMED: Final = {"type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_every_tool_call_parser_is_there_for_any_vocabulary(bundled: Vocabulary, name: str) -> None:
    parsers = load_parsers(bundled, name, None)
    assert parsers is not None
    assert parsers.tools is not None
    assert parsers.reasoning is None
    parser = request_parser(parsers, tools=TOOLS, whole_calls=True)
    assert said(parser, "Hi") == ("Hi", "", [])


@pytest.mark.parametrize("name", REASONING_NAMES)
def test_every_reasoning_parser_is_there_for_any_vocabulary(bundled: Vocabulary, name: str) -> None:
    parsers = load_parsers(bundled, None, name)
    assert parsers is not None
    assert parsers.tools is None
    assert parsers.reasoning is not None
    parser = request_parser(parsers, chat_template_kwargs={"enable_thinking": False}, tools=TOOLS)
    assert said(parser, "Hi") == ("Hi", "", [])


def test_only_markers_that_the_vocabulary_has_are_tokens(bundled: Vocabulary) -> None:
    added = bundled.added_tokens()
    for tools, reasoning, known in (
        ("hermes", "qwen3", ["</think>", "</tool_call>", "<think>", "<tool_call>"]),
        ("kimi_k2", None, []),
        ("glm45", None, ["</tool_call>", "<tool_call>"]),
    ):
        parsers = load_parsers(bundled, tools, reasoning)
        assert parsers is not None
        assert set(parsers.grammar(AUTO).markers) == {added[text] for text in known}


def test_without_names_there_are_no_parsers(bundled: Vocabulary) -> None:
    assert load_parsers(bundled, None, None) is None


@pytest.mark.parametrize(("tools", "reasoning"), NAMES)
def test_formats_of_whole_messages_go_with_no_other(
    bundled: Vocabulary, tools: str | None, reasoning: str | None
) -> None:
    if go_together(tools, reasoning):
        assert load_parsers(bundled, tools, reasoning) is not None
        return
    with pytest.raises(ParserError) as refused:
        load_parsers(bundled, tools, reasoning)
    whole = {name for names in WHOLE for name in names}
    first, second = (tools, reasoning) if tools in whole else (reasoning, tools)
    assert str(refused.value) == (
        f"{first} parses whole messages, reasoning and calls together; it can't be combined with {second}"
    )


def test_an_unknown_name_is_refused_with_those_there_are(bundled: Vocabulary) -> None:
    with pytest.raises(
        ParserError, match=r"^no tool-call parser 'qwen3'; there are deepseek_v3, .*, qwen3_xml$"
    ):
        load_parsers(bundled, "qwen3", None)
    with pytest.raises(ParserError, match=r"^no reasoning parser 'hermes'; there are deepseek_r1, .*, qwen3$"):
        load_parsers(bundled, None, "hermes")


def grammars(tools: str | None, reasoning: str | None) -> Iterator[Grammar]:
    parsers = marked(tools, reasoning)
    forced = (ToolChoice("required"), ToolChoice("named", "get_weather")) if tools else ()
    for choice in (AUTO, *forced):
        yield parsers.grammar(choice)


@pytest.mark.parametrize(("tools", "reasoning"), PAIRS)
def test_every_way_leads_to_a_region(tools: str | None, reasoning: str | None) -> None:
    for grammar in grammars(tools, reasoning):
        for name, region in grammar.regions.items():
            ways = {edge.to for edge in region.edges}
            if isinstance(region, Arguments | CallObjects):
                ways |= {region.then} | {region.otherwise} - {""}
            assert ways <= grammar.regions.keys(), name


@pytest.mark.parametrize(("tools", "reasoning"), PAIRS)
def test_what_is_inside_a_call_is_entered_by_beginning_one(tools: str | None, reasoning: str | None) -> None:
    for grammar in grammars(tools, reasoning):
        for region in grammar.regions.values():
            for edge in region.edges:
                match grammar.regions[edge.to]:
                    case Value():
                        assert edge.act is Act.PARAMETER
                    case Arguments():
                        assert edge.act is Act.OPEN
                    case CallObjects():
                        assert edge.act is Act.BEGIN
                    case _:
                        pass


@pytest.mark.parametrize(("tools", "reasoning"), PAIRS)
def test_outputs_begin_in_a_region(tools: str | None, reasoning: str | None) -> None:
    for switches in ({}, {"enable_thinking": True}, {"enable_thinking": False}):
        parser = request_parser(marked(tools, reasoning), chat_template_kwargs=switches)
        assert parser.start in parser.grammar.regions


@pytest.mark.parametrize(("tools", "reasoning"), [pair for pair in PAIRS if pair[1] is None])
def test_without_a_reasoning_parser_nothing_is_reasoning(tools: str, reasoning: None) -> None:
    for grammar in grammars(tools, reasoning):
        texts = [region for region in grammar.regions.values() if isinstance(region, Text)]
        assert {region.shows for region in texts} == {Shows.CONTENT}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("kimi_k2", Ids.KIMI), ("kimi_k3", Ids.OPENAI), ("mistral", Ids.MISTRAL), ("hermes", Ids.OPENAI)],
)
def test_ids_look_as_the_family_has_them(name: str, expected: Ids) -> None:
    assert marked(name).ids is expected


def test_without_a_tool_call_parser_ids_look_as_openais() -> None:
    assert marked(None, "qwen3").ids is Ids.OPENAI


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("auto", ToolChoice("auto")),
        ("required", ToolChoice("required")),
        (NAMED, ToolChoice("named", "get_weather")),
        ({"function": {"name": "a" * 200}}, ToolChoice("named", "a" * 200)),
    ],
)
def test_a_tool_choice_is_a_mode_or_a_tool(choice: str | dict[str, Any] | None, expected: ToolChoice) -> None:
    assert parse_tool_choice(choice) == expected


@pytest.mark.parametrize(
    "choice",
    [
        "sometimes",
        "",
        {"function": {}},
        {"function": {"name": 1}},
        {"function": {"name": ""}},
        {"function": {"name": "a" * 201}},
        {"function": "get_weather"},
        {"type": "function"},
        {},
    ],
)
def test_a_malformed_tool_choice_is_refused(choice: str | dict[str, Any]) -> None:
    with pytest.raises(ToolChoiceError):
        parse_tool_choice(choice)


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ([], {}),
        (
            [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
            {"f": {"type": "object"}},
        ),
        ([{"function": {"name": "f"}}, {"function": {"name": "g"}}], {"f": None, "g": None}),
        ([{"type": "function", "name": "f", "parameters": {}}], {"f": {}}),
        ([{"function": None}, {"function": {}}, {"function": {"name": 1}}, {}], {}),
    ],
)
def test_tools_are_offered_by_name(tools: list[dict[str, Any]], expected: dict[str, object]) -> None:
    assert offered_tools(tools) == expected


@pytest.mark.parametrize(
    ("tools", "choice", "wanted"),
    [
        (TOOLS, None, True),
        (TOOLS, "auto", True),
        (TOOLS, "none", False),
        (TOOLS, "required", True),
        (TOOLS, NAMED, True),
        ([], None, False),
        ([], "auto", False),
        ([], "none", False),
    ],
)
def test_calls_are_wanted_where_tools_are_offered(
    tools: list[dict[str, Any]], choice: str | dict[str, Any] | None, wanted: bool
) -> None:
    assert request_parser(marked("hermes"), tools=tools, tool_choice=choice).calls_wanted == wanted
    assert not request_parser(marked(None, "qwen3"), tools=tools, tool_choice=choice).calls_wanted


def test_a_grammar_is_made_once() -> None:
    parsers = marked("hermes")
    assert parsers.grammar(ToolChoice("required")) is parsers.grammar(ToolChoice("required"))
    first, second = (request_parser(parsers, tools=TOOLS, tool_choice=NAMED).grammar for _ in range(2))
    assert first is second
