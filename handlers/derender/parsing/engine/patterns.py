r"""Patterns that know when more text could change them.

A pattern is a sequence of parts. The text to search comes in pieces cut anywhere, so besides what it *is*,
a part says what a *beginning* of it is that runs into the end of the text. Where one is found, text is held
back until the next piece decides.

    scan = Scanner([("<tool_call>", SPACE, ahead("{")), ("</think>", SPACE)])
    scan.search("text <tool", 0)            # to be held from 5 on
    scan.search("text <tool_call>\n{", 0)   # the first pattern, from 5 to 17

A marker that the vocabulary has as one id is one character of the text that no text can hold (grammar.py);
where a pattern names the marker, it is that character that is searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

__all__ = [
    "ANYTHING",
    "END",
    "SPACE",
    "Found",
    "Part",
    "Pattern",
    "Regular",
    "Scanner",
    "ahead",
    "any_of",
    "as_regular",
    "capture",
    "one_of",
    "optional",
    "translate",
    "with_markers",
]

MOST_SPACE: Final = 128
"""Longest white space that belongs to a marker: of a longer run, the last characters."""
MOST_CAPTURED: Final = 200
"""Longest name, key or id."""

SPACES: Final = " \t\r\n"

Markers = Mapping[str, str]
"""Text of a marker → the character it is in the text that is searched."""


class Expression(NamedTuple):
    """A part as regular expressions."""

    whole: str
    """What the part is."""
    begun: str
    r"""What may yet become the part: runs into the end of the text, and ends with \Z."""
    first: str | None = None
    """What it can begin with: a set without its brackets; None for any character."""
    empty: bool = False
    """Whether it can be nothing."""


Part = Callable[[Markers], Expression]
"""A part of a pattern."""
Pattern = tuple[Part | str, ...]
"""Parts in sequence; a string is that text."""


class Regular(NamedTuple):
    """A pattern that someone else wrote as a regular expression (regexes.py)."""

    expression: str


_NUMBER: Final = "\x01"
"""In an expression: the number of its pattern, so that several may capture under one name."""
_MARKER: Final = re.compile("[\ud800-\udfff]")
"""Markers are lone surrogates in the text that is parsed: text that was decoded holds none."""
_END: Final = "\x02"
"""In an expression: the end of the output."""
_ANYTHING: Final = "\x03"
"""In an expression: a character that is no white space."""


def translate(text: str, markers: Markers) -> str:
    """A text with its markers as characters. Of markers that begin alike, the longest is read."""
    for marker in sorted(markers, key=len, reverse=True):
        text = text.replace(marker, markers[marker])
    return text


def with_markers(text: str, texts: Mapping[str, str]) -> str:
    """The reverse: a text with its markers as they are written."""
    return text if _MARKER.search(text) is None else _MARKER.sub(lambda match: texts.get(match[0], ""), text)


def _space(_: Markers) -> Expression:
    some = rf"[{SPACES}]{{0,{MOST_SPACE}}}+"
    return Expression(some, some + r"\Z", SPACES, empty=True)


SPACE: Final[Part] = _space
"""White space, or none."""


def _anything(_: Markers) -> Expression:
    return Expression(_ANYTHING, r"\Z")


ANYTHING: Final[Part] = _anything
"""A character that is no white space, or a marker. At the end of the output there is none: what is held then
was to become another pattern."""


def _end(_: Markers) -> Expression:
    return Expression(_END, r"\Z", "")


END: Final[Part] = _end
"""The end of the output."""


def _text(text: str) -> Part:
    def expression(markers: Markers) -> Expression:
        translated = translate(text, markers)
        begun = r"\Z"
        for character in reversed(translated[:-1]):
            begun = rf"(?:\Z|{re.escape(character)}{begun})"
        return Expression(re.escape(translated), begun, re.escape(translated[0]))

    return expression


def any_of(characters: str, *, least: int = 0, most: int = MOST_CAPTURED) -> Part:
    r"""Characters of a set, as many as there are.

    Args:
        characters: The set as regular expressions write it, without the brackets: `^>\s`. Markers are never
            of it.
        least: Fewest.
        most: Most.
    """
    chosen = f"[{_no_marker(characters)}]"

    def expression(_: Markers) -> Expression:
        some = rf"{chosen}{{{least},{most}}}+"
        first = None if characters.startswith("^") else characters
        return Expression(some, rf"{chosen}{{0,{most}}}+\Z", first, empty=not least)

    return expression


def capture(name: str, characters: str, *, most: int = MOST_CAPTURED) -> Part:
    """One or more characters of a set, kept under a name. The set is written as for `any_of`."""
    some = any_of(characters, least=1, most=most)

    def expression(markers: Markers) -> Expression:
        found = some(markers)
        return found._replace(whole=f"(?P<{name}_{_NUMBER}>{found.whole})")

    return expression


def optional(*pattern: Part | str) -> Part:
    """A pattern, or nothing."""

    def expression(markers: Markers) -> Expression:
        found = _sequence(pattern, markers)
        return found._replace(whole=f"(?:{found.whole})?", empty=True)

    return expression


def one_of(*patterns: Pattern | Part | str) -> Part:
    """The first of several patterns that matches."""
    sequences = [each if isinstance(each, tuple) else (each,) for each in patterns]

    def expression(markers: Markers) -> Expression:
        wholes, begun, firsts, empty = zip(*(_sequence(each, markers) for each in sequences), strict=True)
        return Expression(
            f"(?:{'|'.join(wholes)})", f"(?:{'|'.join(begun)})", _either(firsts), empty=any(empty)
        )

    return expression


def ahead(*pattern: Part | str) -> Part:
    """The place before a pattern, which is not read yet."""

    def expression(markers: Markers) -> Expression:
        found = _sequence(pattern, markers)
        return found._replace(whole=f"(?={found.whole})")

    return expression


class Found(NamedTuple):
    """What a search found."""

    start: int
    end: int
    pattern: int | None
    """Number of the pattern; None where the rest of the text may yet become one."""
    captures: dict[str, str]


class Scanner:
    """Searches for the first of several patterns; of two at one place, the earlier in the list.

    Args:
        patterns: The patterns.
        markers: How markers are written in the text.
    """

    __slots__ = ("_begins", "_cut", "_final", "_running", "_spaced")

    def __init__(self, patterns: Sequence[Pattern], markers: Markers) -> None:
        wholes, alternatives, firsts = [], [], []
        # White space before a pattern is looked for where the rest of the pattern is: text is full of it.
        self._spaced = frozenset(number for number, pattern in enumerate(patterns) if pattern[0] is SPACE)
        for number, pattern in enumerate(patterns):
            rest = pattern[1:] if number in self._spaced else pattern
            whole, begun, first, empty = _sequence(rest, markers)
            whole = f"(?P<p{number}>{whole})".replace(_NUMBER, str(number))
            wholes.append(whole)
            # What is begun before what is whole: a part at the end of the text may still grow.
            alternatives += [re.sub(rf"\(\?P<\w+_{_NUMBER}>", "(?:", begun), whole]
            firsts.append(None if empty else first)
        first = _either(firsts)
        self._begins = re.compile("(?s:.)" if first is None else f"[{first}]" if first else "(?!)")
        running, final = "|".join(alternatives) or "(?!)", "|".join(wholes) or "(?!)"
        self._running = re.compile(running.replace(_END, "(?!)").replace(_ANYTHING, f"[^{SPACES}]"))
        final = final.replace(_ANYTHING, "(?!)")
        self._final = re.compile(final.replace(_END, r"\Z"))
        self._cut = re.compile(final.replace(_END, "(?!)"))

    def search(self, text: str, start: int, *, final: bool = False, cut: bool = False) -> Found | None:
        """Find the first pattern, from a place on.

        Args:
            text: The text.
            start: The place.
            final: Whether the output ends with the text: nothing is held, and there may be nothing found.
            cut: Whether it ended because it was cut, which is no `END`.
        """
        expression = self._running if not final else self._cut if cut else self._final
        place = start
        while candidate := self._begins.search(text, place):
            if match := expression.match(text, candidate.start()):
                return self._found(text, start, match)
            place = candidate.end()
        if final:
            match = expression.match(text, len(text))
            return match and self._found(text, start, match)
        begin = _space_before(text, len(text), start) if self._spaced else len(text)
        return Found(begin, len(text), None, {})

    def _found(self, text: str, start: int, match: re.Match[str]) -> Found:
        group = match.lastgroup
        if group is None:
            begin = _space_before(text, match.start(), start) if self._spaced else match.start()
            return Found(begin, match.end(), None, {})
        number = int(group[1:])
        return Found(
            _space_before(text, match.start(), start) if number in self._spaced else match.start(),
            match.end(),
            number,
            {
                name.rpartition("_")[0]: value
                for name, value in match.groupdict().items()
                if value is not None and "_" in name
            },
        )


def _space_before(text: str, end: int, start: int) -> int:
    """Where the white space before a place begins."""
    least = max(start, end - MOST_SPACE)
    while end > least and text[end - 1] in SPACES:
        end -= 1
    return end


def _either(firsts: Iterable[str | None]) -> str | None:
    """What one of several can begin with."""
    found = list(firsts)
    return None if None in found else "".join(first for first in found if first is not None)


def as_regular(pattern: Pattern, markers: Markers) -> str:
    """A pattern as one regular expression."""
    return (
        _sequence(pattern, markers)
        .whole.replace(f"_{_NUMBER}", "")
        .replace(_END, r"\Z")
        .replace(_ANYTHING, f"[^{SPACES}]")
    )


def _sequence(pattern: Sequence[Part | str], markers: Markers) -> Expression:
    expressions = [(_text(part) if isinstance(part, str) else part)(markers) for part in pattern]
    *before, last = expressions
    begun, firsts = last.begun, [last.first]
    for part in reversed(before):
        begun = f"(?:{part.begun}|{part.whole}{begun})"
        firsts = [part.first, *firsts] if part.empty else [part.first]
    return Expression(
        "".join([part.whole for part in expressions]),
        begun,
        _either(firsts),
        empty=all(part.empty for part in expressions),
    )


def _no_marker(characters: str) -> str:
    return rf"{characters}\ud800-\udfff" if characters.startswith("^") else characters
