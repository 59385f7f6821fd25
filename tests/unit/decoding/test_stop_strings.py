"""Stop strings: which one is complete first, and what may become one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.decoding import stop_strings
from derender.decoding.stop_strings import Found, StopStrings
from tests.support.work import growth

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@pytest.fixture(params=[stop_strings._MAX_COMPARED, 0], ids=["few", "many"], autouse=True)
def _found_as(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Find strings as if they were few and short, and as if they were not."""
    monkeypatch.setattr(stop_strings, "_MAX_COMPARED", request.param)


def find(strings: Sequence[str], text: str, exempt: int) -> tuple[int, str] | None:
    found = StopStrings(strings).look(text, exempt)
    return found if isinstance(found, Found) else None


@pytest.mark.parametrize(
    ("text", "exempt", "strings", "end", "found"),
    [
        pytest.param("one END two", 0, ["END"], 7, "END", id="present"),
        pytest.param("one two", 0, ["END"], None, None, id="absent"),
        pytest.param("", 0, ["END"], None, None, id="no text"),
        pytest.param("END", 0, ["END"], 3, "END", id="nothing else"),
        pytest.param("END END", 0, ["END"], 3, "END", id="the first of two"),
        pytest.param("a b c", 0, ["c", "b"], 3, "b", id="the first complete, not the first listed"),
        pytest.param("abcd", 0, ["abcd", "bc"], 3, "bc", id="complete first, though it starts later"),
        pytest.param("abcd", 0, ["bcd", "abcd"], 4, "bcd", id="together: the first listed"),
        pytest.param("abcd", 0, ["abcd", "bcd"], 4, "abcd", id="together: the first listed, longer"),
        pytest.param("abcd", 0, ["abcd", "bcd", "abcd"], 4, "abcd", id="listed twice"),
        pytest.param("aaa", 0, ["aa"], 2, "aa", id="overlapping itself"),
        pytest.param("aabaabaac", 0, ["aabaac"], 9, "aabaac", id="begins again inside"),
        pytest.param("xx END END", 6, ["END"], 10, "END", id="too early, then again"),
        pytest.param("xx END", 6, ["END"], None, None, id="ends with the exempt text"),
        pytest.param("xx END", 5, ["END"], 6, "END", id="ends past the exempt text"),
        pytest.param("END", 1, ["END"], 3, "END", id="begins in the exempt text"),
        pytest.param("END", 9, ["END"], None, None, id="all exempt"),
        pytest.param("東京END", 2, ["END"], 5, "END", id="characters, not bytes"),
    ],
)
def test_the_string_that_is_complete_first_is_found(
    text: str, exempt: int, strings: list[str], end: int | None, found: str | None
) -> None:
    assert find(strings, text, exempt) == (None if end is None else (end, found))


def strings_of(characters: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.text(characters, min_size=1, max_size=5), min_size=1, max_size=5)


@given(text=st.text("ab", max_size=12), exempt=st.integers(0, 14), strings=strings_of("ab"))
def test_strings_are_found_as_if_the_text_came_by_character(text: str, exempt: int, strings: list[str]) -> None:
    expected = None
    for end in range(exempt + 1, len(text) + 1):
        ended = [string for string in strings if text[:end].endswith(string)]
        if ended:
            expected = end, ended[0]
            break
    assert find(strings, text, exempt) == expected


@given(text=st.text("abc", max_size=12), strings=strings_of("abc"))
def test_the_longest_end_that_begins_a_string_is_what_may_become_one(text: str, strings: list[str]) -> None:
    ends = [text[place:] for place in range(len(text) + 1)]
    begun = max(len(end) for end in ends if any(string.startswith(end) and string != end for string in strings))
    assert StopStrings(strings).look(text, exempt=len(text)) == begun


def nearly(count: int, length: int) -> Sequence[str]:
    """Return strings that a text of `x` nearly completes."""
    return ["x" * length + chr(0x100 + number) for number in range(count)]


def test_the_work_does_not_depend_on_the_number_of_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_strings, "_MAX_COMPARED", 0)

    def prepare(count: int) -> Callable[[], object]:
        strings = StopStrings(nearly(count, 20))
        return lambda: strings.look("x" * 200, 0)

    assert growth([8, 64], prepare) == [pytest.approx(1, rel=0.1)]


def test_what_finds_strings_grows_with_their_length() -> None:
    assert max(growth([40, 80, 160], lambda size: lambda: StopStrings(nearly(4, size)).look("x", 0))) < 2.1
