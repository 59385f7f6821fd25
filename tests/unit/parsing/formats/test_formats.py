"""What holds for every format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from derender.parsing import (
    AUTO,
    ToolChoice,
)
from derender.parsing.engine.format import Act, Arguments, CallObjects, Shows, Text, Value
from tests.support.parsers import request_parser

from ..support import (
    NAMES,
    combine,
    marked_parsers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from derender.parsing.engine.grammar import Grammar

PAIRS: Final = [pair for pair in NAMES if combine(*pair)]


def grammars(tools: str | None, reasoning: str | None) -> Iterator[Grammar]:
    parsers = marked_parsers(tools, reasoning)
    forced = (ToolChoice("required"), ToolChoice("named", "get_weather")) if tools else ()
    for choice in (AUTO, *forced):
        yield parsers.grammar(choice)


@pytest.mark.parametrize(("tools", "reasoning"), PAIRS)
def test_every_edge_leads_to_a_region(tools: str | None, reasoning: str | None) -> None:
    for grammar in grammars(tools, reasoning):
        for name, region in grammar.regions.items():
            ways = {edge.to for edge in region.edges}
            if isinstance(region, Arguments | CallObjects):
                ways |= {region.then} | {region.otherwise} - {""}
            assert ways <= grammar.regions.keys(), name


@pytest.mark.parametrize(("tools", "reasoning"), PAIRS)
def test_objects_behind_a_slip_call_only_tools_that_were_offered(
    tools: str | None, reasoning: str | None
) -> None:
    for grammar in grammars(tools, reasoning):
        for region in grammar.regions.values():
            for edge in region.edges:
                target = grammar.regions[edge.to]
                if edge.slip and edge.act is Act.BEGIN and isinstance(target, CallObjects):
                    assert target.offered or grammar.offered_only, edge


@pytest.mark.parametrize(("tools", "reasoning"), PAIRS)
def test_regions_inside_calls_are_entered_by_the_act_that_opens_them(
    tools: str | None, reasoning: str | None
) -> None:
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
        parser = request_parser(marked_parsers(tools, reasoning), chat_template_kwargs=switches)
        assert parser.start in parser.grammar.regions


@pytest.mark.parametrize(("tools", "reasoning"), [pair for pair in PAIRS if pair[1] is None])
def test_nothing_is_reasoning_without_a_reasoning_parser(tools: str, reasoning: None) -> None:
    for grammar in grammars(tools, reasoning):
        texts = [region for region in grammar.regions.values() if isinstance(region, Text)]
        assert {region.shows for region in texts} == {Shows.CONTENT}
