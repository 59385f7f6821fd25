"""The page of differences lists the slips that each parser reads, as its format declares them."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Final

import pytest

from derender.parsing import REASONING_PARSERS, TOOL_CALL_PARSERS
from derender.parsing.engine.format import Format, Slip
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from derender.parsing.engine.format import Edge

PAGE: Final = (ROOT / "docs" / "differences-from-vllm.md").read_text(encoding="utf-8")
TABLE: Final = PAGE.partition("| slip |")[2].partition("\n\n")[0].splitlines()[2:]


def format_of(path: str) -> Format | None:
    """Return a format of the registry; None if a vocabulary describes it."""
    module, attribute = path.split(":")
    form = getattr(import_module(f"derender.parsing.formats.{module}"), attribute)
    return form if isinstance(form, Format) else None


def edges(form: Format) -> Iterator[Edge]:
    for each in (form.first, form.between, form.called, form.content, form.reasoning):
        yield from each
    for region in form.regions.values():
        yield from region.edges


@pytest.mark.parametrize("slip", Slip)
@pytest.mark.parametrize(("column", "registry"), [(3, TOOL_CALL_PARSERS), (4, REASONING_PARSERS)])
def test_the_table_lists_the_parsers_that_read_a_slip(
    slip: Slip, column: int, registry: Mapping[str, str]
) -> None:
    (row,) = [line for line in TABLE if line.startswith(f"| {slip.value} |")]
    cell = re.split(r" \|(?: |$)", row.removeprefix("| ") + " ")[column - 1]
    assert set(re.findall(r"`(\w+)`", cell)) == {
        name
        for name, path in registry.items()
        if (form := format_of(path)) and any(edge.slip is slip for edge in edges(form))
    }


def test_every_row_of_the_table_is_a_slip() -> None:
    assert [line.split(" | ")[0].removeprefix("| ") for line in TABLE] == [each.value for each in Slip]
