"""The page of parsers lists each parser, and no other."""

from __future__ import annotations

import re
from typing import Final

import pytest

from derender.parsing import REASONING_PARSERS, TOOL_CALL_PARSERS
from tests.support.paths import ROOT

PAGE: Final = (ROOT / "docs" / "parsers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("column", "names"), [(1, TOOL_CALL_PARSERS.keys()), (2, REASONING_PARSERS.keys())])
def test_the_table_lists_every_parser(column: int, names: set[str]) -> None:
    table = PAGE.partition("| models |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [line.strip("|").split("|")[column] for line in table]
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == names
