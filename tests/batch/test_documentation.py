"""docs/batch.md lists each error of a line."""

from __future__ import annotations

import re
from typing import get_args

from derender.batch.errors import LineCode
from tests.support.paths import ROOT


def test_codes_of_lines() -> None:
    page = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8")
    table = page.split("| code |", 1)[1].split("\n\n", 1)[0]
    named = {code for row in table.splitlines() for code in re.findall(r"`([a-z_]+)`", row.split("|")[1:2][0])}
    assert named == {*get_args(LineCode)}
