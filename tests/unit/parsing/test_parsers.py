"""Parsers by name, in pairs, and for a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from derender.parsing import (
    AUTO,
    ParserError,
    ToolChoice,
    load_parsers,
)
from derender.parsing.engine.format import Ids
from derender.parsing.registry import REASONING_PARSERS, TOOL_CALL_PARSERS
from tests.support.parsers import Message, request_parser

from .support import (
    NAMED,
    NAMES,
    REASONING_NAMES,
    TOOL_NAMES,
    TOOLS,
    WHOLE,
    combine,
    marked_parsers,
    parse_output,
)

if TYPE_CHECKING:
    from derender.vocabulary import Vocabulary


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_tool_call_parsers_load_for_any_vocabulary(bundled: Vocabulary, name: str) -> None:
    parsers = load_parsers(bundled, name, None)
    assert parsers is not None
    assert parsers.tools is not None
    assert parsers.reasoning is None
    parser = request_parser(parsers, tools=TOOLS, whole_calls=True)
    assert parse_output(parser, "Hi") == Message("Hi")


@pytest.mark.parametrize("name", REASONING_NAMES)
def test_reasoning_parsers_load_for_any_vocabulary(bundled: Vocabulary, name: str) -> None:
    parsers = load_parsers(bundled, None, name)
    assert parsers is not None
    assert parsers.tools is None
    assert parsers.reasoning is not None
    parser = request_parser(parsers, chat_template_kwargs={"enable_thinking": False}, tools=TOOLS)
    assert parse_output(parser, "Hi") == Message("Hi")


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


def test_no_parsers_load_without_names(bundled: Vocabulary) -> None:
    assert load_parsers(bundled, None, None) is None


@pytest.mark.parametrize(("tools", "reasoning"), NAMES)
def test_formats_of_whole_messages_combine_with_no_other(
    bundled: Vocabulary, tools: str | None, reasoning: str | None
) -> None:
    if combine(tools, reasoning):
        assert load_parsers(bundled, tools, reasoning) is not None
        return
    with pytest.raises(ParserError) as refused:
        load_parsers(bundled, tools, reasoning)
    whole = {name for names in WHOLE for name in names}
    first, second = (tools, reasoning) if tools in whole else (reasoning, tools)
    assert str(refused.value) == (
        f"{first} parses whole messages, reasoning and calls together; it can't be combined with {second}"
    )


def test_an_unknown_name_is_refused_with_the_known_ones(bundled: Vocabulary) -> None:
    with pytest.raises(ParserError) as refused:
        load_parsers(bundled, "qwen3", None)
    known = ", ".join(sorted(TOOL_CALL_PARSERS))
    assert str(refused.value) == f"no tool-call parser 'qwen3'; there are {known}"
    with pytest.raises(ParserError) as refused:
        load_parsers(bundled, None, "hermes")
    known = ", ".join(sorted(REASONING_PARSERS))
    assert str(refused.value) == f"no reasoning parser 'hermes'; there are {known}"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("kimi_k2", Ids.KIMI), ("kimi_k3", Ids.OPENAI), ("mistral", Ids.MISTRAL), ("hermes", Ids.OPENAI)],
)
def test_ids_have_the_form_of_the_family(name: str, expected: Ids) -> None:
    assert marked_parsers(name).ids is expected


def test_ids_have_openais_form_without_a_tool_call_parser() -> None:
    assert marked_parsers(None, "qwen3").ids is Ids.OPENAI


@pytest.mark.parametrize(
    ("tools", "choice", "wanted"),
    [
        (TOOLS, None, False),
        (TOOLS, "auto", True),
        (TOOLS, "none", False),
        (TOOLS, "required", True),
        (TOOLS, NAMED, True),
        ([], None, False),
        ([], "auto", False),
        ([], "none", False),
    ],
)
def test_calls_are_wanted_if_tools_are_offered(
    tools: list[dict[str, Any]], choice: str | dict[str, Any] | None, wanted: bool
) -> None:
    assert request_parser(marked_parsers("hermes"), tools=tools, tool_choice=choice).calls_wanted == wanted
    assert not request_parser(marked_parsers(None, "qwen3"), tools=tools, tool_choice=choice).calls_wanted


def test_a_grammar_is_compiled_once() -> None:
    parsers = marked_parsers("hermes")
    assert parsers.grammar(ToolChoice("required")) is parsers.grammar(ToolChoice("required"))
    first, second = (request_parser(parsers, tools=TOOLS, tool_choice=NAMED).grammar for _ in range(2))
    assert first is second
