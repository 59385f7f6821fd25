"""Patterns: what of a text is one, and what may become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from derender.parsing.characters import encode_markers
from derender.parsing.patterns.parts import (
    ANYTHING,
    END,
    MAX_CAPTURED,
    MAX_SPACE,
    SPACE,
    ahead,
    any_of,
    capture,
    one_of,
    optional,
    same,
    some,
)
from derender.parsing.patterns.scanner import Match, Scanner

if TYPE_CHECKING:
    from derender.parsing.patterns import Pattern

MARKERS: Final = {"<m>": "\ud800", "<m>>": "\ud801"}
NAME: Final = capture("name", r"^>\s")


def search(text: str, *patterns: Pattern, final: bool = False) -> Match | None:
    return Scanner(patterns, MARKERS).search(text, 0, final=final)


def found_in(text: str, pattern: Pattern, *, final: bool = False) -> str | None:
    """The text found of a pattern."""
    found = search(text, pattern, final=final)
    return None if found is None or found.pattern is None else text[found.start : found.end]


def held_of(text: str, pattern: Pattern) -> str:
    """What is kept of a text in which the pattern is not yet."""
    found = search(text, pattern)
    assert found is not None
    assert found.pattern is None
    assert found.end == len(text)
    return text[found.start :]


FOUND: Final = [
    pytest.param(("<a>",), "x<a>y", "<a>", id="text"),
    pytest.param(("a.b",), "axb a.b", "a.b", id="text is no expression"),
    pytest.param((SPACE, "<a>"), "x \r\n\t<a>", " \r\n\t<a>", id="space"),
    pytest.param((SPACE, "<a>"), "x<a>", "<a>", id="no space"),
    pytest.param((SPACE, "<a>"), "x\u00a0<a>", "<a>", id="another kind of space"),
    pytest.param(("<", NAME, ">"), "< ><><ab>", "<ab>", id="capture"),
    pytest.param(("<", any_of("a-z"), ">"), "<A><>", "<>", id="any of a set, none"),
    pytest.param(("<", any_of("a-z", least=2, most=3), ">"), "<a><abcd><abc>", "<abc>", id="so many of a set"),
    pytest.param(("a", optional("b", "c"), "d"), "ab acd abcd", "abcd", id="optional, there"),
    pytest.param(("a", optional("b", "c"), "d"), "abd ad", "ad", id="optional, not there"),
    pytest.param((one_of("ab", ("c", SPACE, "d")), "!"), "c  d!", "c  d!", id="one of several"),
    pytest.param((one_of("ab", "a"),), "abc", "ab", id="the first of several that matches"),
    pytest.param((one_of("a", "ab"),), "abc", "a", id="though the next is longer"),
    pytest.param(("<a>", SPACE, ahead("{")), "<a>x<a> {", "<a> ", id="ahead is not read"),
    pytest.param((ahead("x", SPACE, "y"),), "xx  y", "", id="the place before"),
    pytest.param(("<", NAME, "><", same("name"), ">"), "<a><b><b>", "<b><b>", id="the same again"),
    pytest.param((some("<a>"), "."), "<a> <a><b><a> \n<a><a>.", "<a> \n<a><a>.", id="some"),
    pytest.param((some("<a>", least=2), "."), "<a>. <a><a>.", "<a><a>.", id="at least so many"),
    pytest.param(("<m>",), "<m>\ud800", "\ud800", id="a marker is its character"),
    pytest.param(("<", any_of("^>"), ">"), "<a\ud801b><ab>", "<ab>", id="a set holds no marker"),
    pytest.param(("(<m>)",), "(<m>)(\ud800)", "(\ud800)", id="a marker in text"),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), FOUND)
def test_a_pattern_matches_before_and_at_the_end(pattern: Pattern, text: str, expected: str) -> None:
    behind = text + "~"
    assert found_in(behind, pattern) == expected
    assert found_in(behind, pattern, final=True) == expected


@pytest.mark.parametrize(("pattern", "text", "expected"), FOUND)
def test_a_partial_match_holds_what_matches_later(pattern: Pattern, text: str, expected: str) -> None:
    text += "~"
    whole = search(text, pattern)
    assert whole is not None
    assert text[whole.start : whole.end] == expected
    for length in range(len(text)):
        begun = search(text[:length], pattern)
        assert begun is not None
        if begun.pattern is None:
            assert begun.start <= whole.start
        else:
            assert begun == whole


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        pytest.param(("<a>",), "x<a", "<a", id="text"),
        pytest.param(("<a>",), "x<b", "", id="other text"),
        pytest.param(("aab",), "xaaa", "aa", id="text that begins later"),
        pytest.param((SPACE, "<a>"), "x \n", " \n", id="space"),
        pytest.param((SPACE, "<a>"), "x \n<", " \n<", id="space and text"),
        pytest.param((SPACE, "<a>"), "x \ny", "", id="space before other text"),
        pytest.param(("<", NAME, ">"), "x<name", "<name", id="capture"),
        pytest.param(("<", NAME, ">"), "x<na me", "", id="broken capture"),
        pytest.param(("<", any_of("a-z", most=3), ">"), "<abc", "<abc", id="all of a set that there may be"),
        pytest.param(("<", any_of("a-z", most=3), ">"), "<abcd", "", id="more of a set than may be"),
        pytest.param(("<", NAME, "><", same("name"), ">"), "x<a><a", "<a><a", id="the same again"),
        pytest.param(("<", NAME, "><", same("name"), ">"), "x<a><a b", "", id="what can't be the same"),
        pytest.param(("<", NAME, "><", same("name"), ">"), "<a><" + "b" * 201, "", id="more than is captured"),
        pytest.param((some("<a>"), "."), "x<a> <a", "<a> <a", id="some"),
        pytest.param((some("<a>"), "."), "x<a> <a>" + " " * 200, "", id="more space than some have between"),
        pytest.param(("a", optional("bc"), "d"), "xab", "ab", id="optional"),
        pytest.param(("a", optional("bc"), "d"), "xabcx", "", id="after optional"),
        pytest.param((one_of("```json", "```"),), "x```js", "```js", id="what is found may grow"),
        pytest.param(("<a>", SPACE, ahead("{")), "x<a> ", "<a> ", id="ahead is not there yet"),
        pytest.param(("<a>", SPACE, ahead("{[")), "x<a> {", "<a> {", id="ahead has begun"),
        pytest.param(("<a>", ahead(one_of("{", END))), "x<a>", "<a>", id="the end may be here"),
        pytest.param((ahead(ANYTHING),), " \n", "", id="white space is not anything"),
        pytest.param(("<m>",), "x<m", "", id="a marker does not come in parts"),
        pytest.param(("<m>b",), "x\ud800", "\ud800", id="text behind a marker"),
        pytest.param(("<", any_of("^>"), ">"), "<a\ud801", "", id="a marker in a set"),
    ],
)
def test_a_partial_match_is_held(pattern: Pattern, text: str, expected: str) -> None:
    assert held_of(text, pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        pytest.param(("<a>",), "x<a", None, id="a beginning"),
        pytest.param((one_of("```json", "```"),), "x```js", "```", id="what could have grown"),
        pytest.param(("<a>", ahead(one_of("{", END))), "x<a>", "<a>", id="the end"),
        pytest.param(("<a>", ahead(SPACE, END)), "x<a> \n", "<a>", id="space and the end"),
        pytest.param(("<a>", END), "<a>x", None, id="not the end"),
        pytest.param(("a", optional("bc"), END), "xab", None, id="optional, begun"),
    ],
)
def test_at_the_end_nothing_is_held(pattern: Pattern, text: str, expected: str | None) -> None:
    assert found_in(text, pattern, final=True) == expected


def test_the_earlier_pattern_wins_at_one_place() -> None:
    assert search("x<ab>.", ("<a", NAME, ">"), ("<ab>",)) == Match(1, 5, 0, {"name": "b"})
    assert search("x<ab>.", ("<ab>",), ("<a", NAME, ">")) == Match(1, 5, 0, {})


def test_the_first_place_wins() -> None:
    assert search("x<b><a>", ("<a>",), ("<b>",)) == Match(1, 4, 1, {})


def test_a_partial_match_of_an_earlier_pattern_holds_a_later_one() -> None:
    assert search("x<a", ("<ab>",), ("<a",)) == Match(1, 3, None, {})
    assert search("x<ac", ("<ab>",), ("<a",)) == Match(1, 3, 1, {})


def test_each_pattern_captures_its_own() -> None:
    patterns = [("<f=", NAME, ">"), ("<g=", capture("id", "0-9"), " ", NAME, ">")]
    assert search("<f=a>", *patterns) == Match(0, 5, 0, {"name": "a"})
    assert search("<g=7 b>", *patterns) == Match(0, 7, 1, {"id": "7", "name": "b"})


def test_an_optional_capture_may_be_missing() -> None:
    pattern: Pattern = ("<", NAME, optional(" ", capture("id", "0-9")), ">")
    assert search("<a>", pattern) == Match(0, 3, 0, {"name": "a"})
    assert search("<a 1>", pattern) == Match(0, 5, 0, {"name": "a", "id": "1"})


def test_a_capture_is_bounded() -> None:
    longest = "n" * MAX_CAPTURED
    assert found_in(f"<{longest}>", ("<", NAME, ">")) == f"<{longest}>"
    assert found_in(f"<{longest}n>", ("<", NAME, ">")) is None
    assert held_of(f"<{longest}", ("<", NAME, ">")) == f"<{longest}"
    assert held_of(f"<{longest}n", ("<", NAME, ">")) == ""


def test_long_white_space_belongs_to_a_marker_in_part() -> None:
    spaces = " " * (MAX_SPACE + 72)
    assert held_of(spaces, (SPACE, "<a>")) == " " * MAX_SPACE
    assert found_in(f"{spaces}<a>", (SPACE, "<a>")) == " " * MAX_SPACE + "<a>"


def test_the_search_begins_at_a_place() -> None:
    assert Scanner([("<a>",)], {}).search("<a><a>", 1) == Match(3, 6, 0, {})


def test_nothing_matches_without_patterns() -> None:
    assert search("text <") == Match(6, 6, None, {})
    assert search("text <", final=True) is None


def test_the_longest_of_markers_that_begin_alike_is_encoded() -> None:
    assert encode_markers("<m>><m><m", MARKERS) == "\ud801\ud800<m"


def test_anything_waits_until_no_other_pattern_can_match() -> None:
    scanner = Scanner([("<a>",), (ahead(ANYTHING),)], {})
    assert [scanner.search(text, 0).pattern for text in (" \n x", " <", " <b", " ")] == [1, None, 1, None]  # type: ignore[union-attr]
    assert scanner.search(" <", 0, final=True) is None


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" ]", Match(0, 2, 0, {})),
        (" <]", None),
        (" <]<a>", Match(3, 6, 1, {})),
    ],
)
def test_an_anchored_pattern_matches_at_the_end_only_where_the_search_begins(
    text: str, expected: Match | None, cut: bool
) -> None:
    scanner = Scanner([(SPACE, "]"), ("<a>",), ("<]<a>x",), (ahead(ANYTHING),)], {}, anchored=[0, 2])
    assert scanner.search(text, 0, final=True, cut=cut) == expected


def test_a_literal_may_be_long() -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 2_000)))
    scanner = Scanner([(text,)], {})
    for length in (1, 999, 1_000, 1_001, 1_999):
        assert scanner.search(f"{text[1]} {text[:length]}", 0) == Match(2, 2 + length, None, {})
    assert scanner.search(f" {text}", 0) == Match(1, 2_001, 0, {})
