"""The prices of the three ways to stream are the same on all pages, and those that `derender cost` computes."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT

COMPUTED = (ROOT / "docs/cost.md").read_text(encoding="utf-8")
"""docs/cost.md, whose tables are compared with the command's output in another test."""
WAYS = {
    "relay": "stream, relayed, function URL",
    "several chunks per request": "stream, 16 chunks per request",
    "one chunk per request": "stream, one chunk per request",
}
"""A way to stream → its row in the table of docs/cost.md."""


def find_price(row: str) -> str:
    """Return the last column of a row of the first table: dollars for a million tokens."""
    line, *_other_tables = re.findall(rf"^\| {re.escape(row)} \|.*$", COMPUTED, re.MULTILINE)
    return f"${line.split('|')[-2].strip()}"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("page", ["README.md", "docs/streaming.md"])
def test_a_page_has_the_computed_price(page: str, way: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8").lower().replace("chunk by chunk", "one chunk per request")
    (row,) = re.findall(rf"^\| \[{re.escape(way)}\].*\$.*$", text, re.MULTILINE)
    assert find_price(WAYS[way]) in [cell.strip() for cell in row.split("|")]
