"""Tags are found as their pattern finds them."""

from __future__ import annotations

import re

import pytest

from derender.parsing.formats.hf.tags import tag_finder
from derender.parsing.patterns.parts import MAX_CAPTURED
from tests.support.work import growth

PATTERNS = [
    r"<parameter=(?P<key>[^>]+)>\n?(?P<value>.*?)\n?</parameter>",
    r"<parameter=(?P<key>[^>]+)>(?P<value>.*?)</parameter>",
    r"<parameter=(?P<key>\w+)>\s*(?P<value>.*?)\s*</parameter>",
    r"<parameter=(?P<key>.+?)>\s*(?P<value>.*?)</parameter>",
]
VALUES = ["", "x", "\n", "\nx\n", "\n\n x \n\n", "</parameter", "<parameter=b>", " > "]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_tags_are_found_as_their_pattern_finds_them(pattern: str) -> None:
    for value in VALUES:
        for text in (
            f"<parameter=a>{value}</parameter>",
            f" <parameter=a>{value}</parameter>\n<parameter=b c>1</parameter>.",
            f"<parameter=<parameter=a>{value}</parameter><parameter=b>",
        ):
            expected = [
                (*match.span(), match["key"], match["value"]) for match in re.finditer(pattern, text, re.DOTALL)
            ]
            assert [*tag_finder(pattern)(text)] == expected


def test_a_key_has_a_longest_length() -> None:
    find = tag_finder(PATTERNS[0])
    for length, count in ((MAX_CAPTURED, 1), (MAX_CAPTURED + 1, 0)):
        assert len([*find(f"<parameter={'k' * length}>v</parameter>")]) == count


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(
    "text", ["<parameter=", "<parameter=a>", "<parameter=a>\n1", "<parameter=a>1</parameter>"]
)
def test_the_work_grows_with_the_text(pattern: str, text: str) -> None:
    find = tag_finder(pattern)
    assert max(growth([100, 200], lambda size: lambda: [*find(text * size)])) <= 2.2
