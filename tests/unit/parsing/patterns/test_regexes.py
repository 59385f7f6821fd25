"""Regular expressions, searched in text that arrives in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from derender.parsing.patterns import Match, Regex, regexes
from derender.parsing.patterns.regexes import MAX_MATCH, RegexScanner

if TYPE_CHECKING:
    import regex

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
        pytest.param(["a.*c"], "a" + "x" * (MAX_MATCH - 1), (0, None), id="as long as a match may be"),
        pytest.param(["a.*c"], "a" + "x" * MAX_MATCH, (MAX_MATCH + 1, None), id="longer than a match may be"),
        pytest.param(
            ["a.*c|bd"], "a" + "x" * MAX_MATCH + "bdc", (MAX_MATCH + 1, 0), id="behind what is too long"
        ),
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


def test_an_expression_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexes, "TIMEOUT", 0.001)
    scanner = RegexScanner([Regex("<(?:a|ab|b)*>")], {})
    with pytest.raises(TimeoutError):
        scanner.search("<" + "ab" * 40 + "!", 0)


@pytest.mark.parametrize("expression", [r"\s*x", "<[^>]+>", "a.*b", r"(?P<name>\w+)!"])
def test_no_more_text_is_searched_from_a_place_on_than_a_match_may_have(
    monkeypatch: pytest.MonkeyPatch, expression: str
) -> None:
    searched: list[int] = []

    class Counted:
        def __init__(self, pattern: regex.Pattern[str]) -> None:
            self.pattern = pattern

        def match(self, text: str, start: int = 0, end: int | None = None, **options: Any) -> Any:
            searched.append((len(text) if end is None else end) - start)
            return self.pattern.match(text, start, end, **options)

    compiled = regexes.compile_regex
    monkeypatch.setattr(regexes, "compile_regex", lambda each: [*map(Counted, compiled(each))])
    scanner = RegexScanner([Regex(expression, " \n")], {})
    for character in " <a\n":
        totals = []
        for length in (4_000, 8_000):
            searched.clear()
            scanner.search(character * length + ".", 0)
            totals.append(sum(searched))
        assert max(searched, default=0) <= MAX_MATCH
        assert totals[1] <= 2.2 * totals[0]
