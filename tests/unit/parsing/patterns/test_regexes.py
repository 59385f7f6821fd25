"""Regular expressions, searched in text that arrives in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from derender.parsing.patterns import Match, Regex
from derender.parsing.patterns.regexes import RegexScanner

if TYPE_CHECKING:
    from derender.parsing.patterns import Pattern


@pytest.mark.parametrize(
    ("patterns", "text", "expected"),
    [
        pytest.param(["ab"], "xxab", (2, None), id="whole, and more may follow"),
        pytest.param(["ab"], "xxabc", (2, 0), id="whole"),
        pytest.param(["ab"], "xa", (1, None), id="begun"),
        pytest.param(["ab"], "xx", (2, None), id="nothing"),
        pytest.param([r"a\s*"], "a  ", (0, None), id="it may grow"),
        pytest.param([r"a\s*"], "a  b", (0, 0), id="it can't grow"),
        pytest.param(["abcd|b"], "xabc", (1, None), id="what begins before it may come"),
        pytest.param(["abcd|b"], "xabe", (2, 0), id="what begins before it does not come"),
        pytest.param(["ac.*?d|ab"], "acxdx", (0, 0), id="the first end counts"),
        pytest.param(["a(?=bc)"], "xab", (1, None), id="what follows is begun"),
        pytest.param(["a(?!bc)"], "xab", (1, None), id="what must not follow is begun"),
        pytest.param(["a", "ab"], "abx", (0, 1), id="the longer"),
        pytest.param(["b", "abc"], "ab", (0, None), id="another begins before it"),
        pytest.param(["a.*c"], "a" + "x" * 5000, (0, None), id="longer than what is searched at first"),
        pytest.param(["ab"], "x" * 5000 + "aba", (5000, 0), id="behind what is searched at first"),
        pytest.param([(">",)], "x>", (1, 0), id="a literal needs no more"),
    ],
)
def test_a_match_counts_once_nothing_can_change_it(
    patterns: list[str | Pattern], text: str, expected: tuple[int, int | None]
) -> None:
    scanner = RegexScanner([Regex(each) if isinstance(each, str) else each for each in patterns], {})
    found = scanner.search(text, 0)
    assert found is not None
    assert (found.start, found.pattern) == expected


def test_a_match_has_its_captures() -> None:
    scanner = RegexScanner([Regex(r"(?P<name>\w+)\((?:(?P<other>x)|y)\1")], {})
    assert scanner.search("f(yf!", 0) == Match(0, 4, 0, {"name": "f"})
    assert scanner.search("f(yf", 0, final=True) == Match(0, 4, 0, {"name": "f"})
    assert scanner.search("f(yg", 0, final=True) is None
