r"""Patterns that know when more text could change them.

A pattern is a sequence of parts. The text to search comes in pieces cut anywhere, so besides what it *is*,
a part says what a *beginning* of it is that runs into the end of the text. Where one is found, text is held
back until the next piece decides.

    scan = Scanner([("<tool_call>", SPACE, ahead("{")), ("</think>", SPACE)])
    scan.search("text <tool", 0)            # to be held from 5 on
    scan.search("text <tool_call>\n{", 0)   # the first pattern, from 5 to 17

A marker that the vocabulary has as one id is one character of the text that no text can hold (pieces.py); where
a pattern names the marker, it is that character that is searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

__all__ = [
    "ANYTHING",
    "END",
    "SPACE",
    "Found",
    "Part",
    "Pattern",
    "Scanner",
    "ahead",
    "any_of",
    "capture",
    "one_of",
    "optional",
    "translate",
]

MOST_SPACE: Final = 128
"""Longest white space that belongs to a marker: of a longer run, the last characters."""
MOST_CAPTURED: Final = 200
"""Longest name, key or id."""

Markers = Mapping[str, str]
"""Text of a marker → the character it is in the text that is searched."""


class Expression(NamedTuple):
    """A part as regular expressions."""

    whole: str
    """What the part is."""
    begun: str
    r"""What may yet become the part: runs into the end of the text, and ends with \Z."""


Part = Callable[[Markers], Expression]
"""A part of a pattern."""
Pattern = tuple[Part | str, ...]
"""Parts in sequence; a string is that text."""

_NUMBER: Final = "\x01"
"""In an expression: the number of its pattern, so that several may capture under one name."""
_END: Final = "\x02"
"""In an expression: the end of the output."""


def translate(text: str, markers: Markers) -> str:
    """A text with its markers as characters. Of markers that begin alike, the longest is read."""
    for marker in sorted(markers, key=len, reverse=True):
        text = text.replace(marker, markers[marker])
    return text


def _space(_: Markers) -> Expression:
    some = rf"[ \t\r\n]{{0,{MOST_SPACE}}}+"
    return Expression(some, some + r"\Z")


SPACE: Final[Part] = _space
"""White space, or none."""


def _anything(_: Markers) -> Expression:
    return Expression(r"[^ \t\r\n]", r"\Z")


ANYTHING: Final[Part] = _anything
"""A character that is no white space, or a marker."""


def _end(_: Markers) -> Expression:
    return Expression(_END, r"\Z")


END: Final[Part] = _end
"""The end of the output."""


def _text(text: str) -> Part:
    def expression(markers: Markers) -> Expression:
        translated = translate(text, markers)
        begun = r"\Z"
        for character in reversed(translated[:-1]):
            begun = rf"(?:\Z|{re.escape(character)}{begun})"
        return Expression(re.escape(translated), begun)

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
        return Expression(rf"{chosen}{{{least},{most}}}+", rf"{chosen}{{0,{most}}}+\Z")

    return expression


def capture(name: str, characters: str, *, most: int = MOST_CAPTURED) -> Part:
    """One or more characters of a set, kept under a name. The set is written as for `any_of`."""
    some = any_of(characters, least=1, most=most)

    def expression(markers: Markers) -> Expression:
        whole, begun = some(markers)
        return Expression(f"(?P<{name}_{_NUMBER}>{whole})", begun)

    return expression


def optional(*pattern: Part | str) -> Part:
    """A pattern, or nothing."""

    def expression(markers: Markers) -> Expression:
        whole, begun = _sequence(pattern, markers)
        return Expression(f"(?:{whole})?", begun)

    return expression


def one_of(*patterns: Pattern | Part | str) -> Part:
    """The first of several patterns that matches."""
    sequences = [each if isinstance(each, tuple) else (each,) for each in patterns]

    def expression(markers: Markers) -> Expression:
        wholes, begun = zip(*(_sequence(each, markers) for each in sequences), strict=True)
        return Expression(f"(?:{'|'.join(wholes)})", f"(?:{'|'.join(begun)})")

    return expression


def ahead(*pattern: Part | str) -> Part:
    """The place before a pattern, which is not read yet."""

    def expression(markers: Markers) -> Expression:
        whole, begun = _sequence(pattern, markers)
        return Expression(f"(?={whole})", begun)

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

    __slots__ = ("_final", "_running")

    def __init__(self, patterns: Sequence[Pattern], markers: Markers) -> None:
        wholes, alternatives = [], []
        for number, pattern in enumerate(patterns):
            whole, begun = _sequence(pattern, markers)
            whole = f"(?P<p{number}>{whole})".replace(_NUMBER, str(number))
            wholes.append(whole)
            # What is begun before what is whole: a part at the end of the text may still grow.
            alternatives += [re.sub(rf"\(\?P<\w+_{_NUMBER}>", "(?:", begun), whole]
        self._running = re.compile("|".join([*alternatives, r"\Z"]).replace(_END, "(?!)"))
        self._final = re.compile(("|".join(wholes) or "(?!)").replace(_END, r"\Z"))

    def search(self, text: str, start: int, *, final: bool = False) -> Found | None:
        """Find the first pattern, from a place on.

        Args:
            text: The text.
            start: The place.
            final: Whether the output ends with the text: nothing is held, and there may be nothing found.
        """
        match = (self._final if final else self._running).search(text, start)
        if match is None:
            return None
        group = match.lastgroup
        if group is None:
            return Found(match.start(), match.end(), None, {})
        captures = {
            name.rpartition("_")[0]: value
            for name, value in match.groupdict().items()
            if value is not None and "_" in name
        }
        return Found(match.start(), match.end(), int(group[1:]), captures)


def _sequence(pattern: Sequence[Part | str], markers: Markers) -> Expression:
    expressions = [(_text(part) if isinstance(part, str) else part)(markers) for part in pattern]
    *before, (_, begun) = expressions
    for whole, part_begun in reversed(before):
        begun = f"(?:{part_begun}|{whole}{begun})"
    return Expression("".join(whole for whole, _ in expressions), begun)


def _no_marker(characters: str) -> str:
    return rf"{characters}\ud800-\udfff" if characters.startswith("^") else characters
