"""The package's README: its tables are the code's, and its example works."""

from __future__ import annotations

import json
import re
import runpy
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest

from derender.parsing import Parser
from derender.parsing.arguments.schema import Tools
from derender.parsing.engine.format import Act, Arguments, CallObjects, Format, Markup, Text
from derender.parsing.engine.grammar import compile_grammar
from derender.parsing.engine.lifecycle import LIFECYCLE
from derender.parsing.registry import REASONING_PARSERS, TOOL_CALL_PARSERS
from tests.support.parsers import Message, request_parser
from tests.support.paths import ROOT

from .support import TOOLS, marked_parsers, marked_vocabulary, parse_output

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from derender.parsing.engine.format import Edge, Region

PACKAGE: Final = ROOT / "handlers" / "derender" / "parsing"
README: Final = (PACKAGE / "README.md").read_text(encoding="utf-8")


def table(marker: str) -> list[list[str]]:
    """Return the rows of the table after a comment. Cells of the first column that are empty repeat it."""
    lines = README.partition(f"<!-- {marker} -->\n")[2].partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    for before, row in pairwise(rows):
        row[0] = row[0] or before[0]
        row[1] = row[1] or before[1]
    return rows


def kind(region: Region) -> str:
    match region:
        case Text():
            return region.shows.value
        case Markup():
            return "markup"
        case CallObjects():
            return "calls as JSON objects"
        case _:
            raise AssertionError(f"the README has no word for {region}")


def edges(region: Region) -> list[tuple[tuple[str, ...], str, str]]:
    """Return each edge's literals, where it leads, and its act."""
    if isinstance(region, Arguments | CallObjects):
        return [((), region.then, ""), ((), region.otherwise, "")]
    return [(literals(edge), edge.to, edge.act.value) for edge in region.edges if edge.slip is None]


def reached(regions: Mapping[str, Region], begin: set[str]) -> set[str]:
    """Return the regions that are reached without a slip."""
    found: set[str] = set()
    while begin - found:
        new = begin - found
        found |= new
        begin = {to for name in new for _, to, _ in edges(regions[name])}
    return found


def literals(edge: Edge) -> tuple[str, ...]:
    return tuple(part for part in edge.pattern if isinstance(part, str))


def test_the_table_of_regions_is_the_grammars() -> None:
    grammar = request_parser(marked_parsers("hermes", "qwen3"), tools=TOOLS).grammar
    rows = table("regions: hermes, qwen3")
    regions = reached(grammar.regions, {"answer", "prompt", "thinking"})
    assert {row[0].strip("`") for row in rows} == regions
    for name, region in ((name, grammar.regions[name]) for name in regions):
        shown = [row for row in rows if row[0] == f"`{name}`"]
        assert {row[1] for row in shown} == {kind(region)}
        assert [(row[3].strip("`"), row[4]) for row in shown] == [(to, act) for _, to, act in edges(region)]
        for (texts, _, _), row in zip(edges(region), shown, strict=True):
            assert all(f"`{text}`" in row[2] for text in texts)


def test_the_table_of_the_lifecycle_is_the_codes() -> None:
    assert table("lifecycle") == [
        [row.step.value, ", ".join(row.before), row.effect.value, row.after or "over"] for row in LIFECYCLE
    ]


def code(language: str) -> str:
    """Return the block of a language in the steps to add a family."""
    section = README.partition("## Add a family")[2]
    block = re.search(rf"^   ```{language}\n(.*?)^   ```$", section, re.DOTALL | re.MULTILINE)
    assert block
    return re.sub(r"^   ", "", block[1], flags=re.MULTILINE)


@pytest.mark.parametrize("whole_calls", [False, True])
def test_the_example_of_a_family_works(whole_calls: bool, tmp_path: Path) -> None:
    module = tmp_path / "example.py"
    module.write_text(code("python"))
    form = runpy.run_path(str(module))["TOOLS"]
    assert isinstance(form, Format)
    grammar = compile_grammar(marked_vocabulary(form.markers), form, None)
    parser = Parser(
        grammar, form.start, None, (), Tools({}), calls_wanted=True, one_call=False, whole_calls=whole_calls
    )
    expected = json.loads(code("json"))
    message = parse_output(parser, code("text").rstrip("\n"))
    assert message == Message(expected["content"], calls=[(name, text) for name, text in expected["calls"]])


def test_every_module_that_is_named_exists() -> None:
    named = re.findall(r"`((?:formats|engine|arguments|patterns)/\w+\.py|\w+\.py)`", README)
    assert named
    assert [name for name in named if not (PACKAGE / name).is_file() and "NAME" not in name] == []


def test_every_act_is_used_by_a_format() -> None:
    used = {
        edge.act
        for tools, reasoning in [
            *((name, None) for name in TOOL_CALL_PARSERS),
            *((None, name) for name in REASONING_PARSERS),
        ]
        if "hf" not in (tools, reasoning)
        for region in request_parser(marked_parsers(tools, reasoning), tools=TOOLS).grammar.regions.values()
        for edge in region.edges
    }
    assert used == set(Act)
