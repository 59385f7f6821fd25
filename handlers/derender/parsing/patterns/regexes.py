r"""Search for regular expressions that someone else wrote, in text that arrives in pieces.

A match counts once nothing that follows can change it. An expression tries its alternatives in order: if an
alternative before the match, or a match that begins earlier, runs into the end of the text, it may still win.
The `regex` package tells whether one does, but only for an expression that does not match. So the scanner
searches the expression followed by something that is never there, which fails at the end of the text unless
the text ended before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from derender.parsing.characters import WHITESPACE

from .parts import END_OF_OUTPUT, NO_SPACE, NUMBER, Regex, join
from .scanner import Match

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .parts import Pattern

__all__ = ["RegexScanner", "compile_regex"]

_END: Final = "__end__"
"""Group that tells that the whole expression was read, and where it ends."""
_NEVER: Final = rf"(?P<{_END}>)(?s:.*+.)"
_WINDOW: Final = 256
"""Characters searched at first: a text may be long, and a match near."""


def compile_regex(expression: str) -> tuple[regex.Pattern[str], regex.Pattern[str]]:
    """Compile an expression: as it is, and as it is searched while more text may follow.

    Raises:
        ValueError: It is malformed.
    """
    try:
        return regex.compile(expression, regex.DOTALL), regex.compile(f"(?:{expression}){_NEVER}", regex.DOTALL)
    except regex.error as error:
        raise ValueError(f"{expression!r} is not a valid regular expression: {error}") from error


class RegexScanner:
    """Searches for the first of several patterns, some of them regular expressions.

    If several begin at one place, the longest wins; of two as long, the earlier in the list.

    Args:
        patterns: The patterns.
        markers: Marker text → character.
    """

    __slots__ = ("_final", "_growing", "_running")

    def __init__(self, patterns: Sequence[Pattern | Regex], markers: Mapping[str, str]) -> None:
        pairs = [
            compile_regex(pattern.expression if isinstance(pattern, Regex) else _to_regex(pattern, markers))
            for pattern in patterns
        ]
        self._final = [final for final, _ in pairs]
        self._running = [running for _, running in pairs]
        self._growing = [isinstance(pattern, Regex) for pattern in patterns]

    def search(self, text: str, start: int, *, final: bool = False, cut: bool = False) -> Match | None:  # noqa: ARG002
        """Find the first pattern. Patterns may look at the text before `start`.

        Args:
            text: The text.
            start: Where to begin.
            final: Whether the output ends with the text. Then nothing is held, and there may be no match.
            cut: Ignored: these patterns have no `END`.
        """
        if final:
            matches = ((number, each.search(text, start)) for number, each in enumerate(self._final))
            return _first([_to_match(number, match) for number, match in matches if match])
        size = _WINDOW
        while True:
            end = min(start + size, len(text))
            found = self._search(text, start, end)
            if found.pattern is not None or end == len(text):
                return found
            start, size = found.start, 2 * size

    def _search(self, text: str, start: int, end: int) -> Match:
        # What is held begins where the search does, and is searched again with each piece.
        here = (each.match(text, start, end, partial=True) for each in self._running)
        if any(self._settle(number, match, end).pattern is None for number, match in enumerate(here) if match):
            return Match(start, end, None, {})
        there = (each.search(text, start, end, partial=True) for each in self._running)
        matches = [self._settle(number, match, end) for number, match in enumerate(there) if match]
        held = min((each.start for each in matches if each.pattern is None), default=end)
        first = _first([each for each in matches if each.pattern is not None])
        return first if first and first.start < held else Match(held, end, None, {})

    def _settle(self, number: int, found: regex.Match[str], end: int) -> Match:
        match = _to_match(number, found)
        # What `$` means at the end of the text depends on what follows.
        waits = match.end == end and self._growing[number]
        return match._replace(pattern=None) if waits else match


def _to_regex(pattern: Pattern, markers: Mapping[str, str]) -> str:
    return (
        join(pattern, markers)
        .whole.replace(f"_{NUMBER}", "")
        .replace(END_OF_OUTPUT, r"\Z")
        .replace(NO_SPACE, f"[^{WHITESPACE}]")
    )


def _first(matches: Sequence[Match]) -> Match | None:
    return min(matches, key=lambda each: (each.start, -each.end, each.pattern), default=None)


def _to_match(number: int, found: regex.Match[str]) -> Match:
    captures = {name: value for name, value in found.groupdict().items() if value is not None}
    if not found.partial:
        return Match(found.start(), found.end(), number, captures)
    end = captures.pop(_END, None)
    if end is None:
        return Match(found.start(), found.end(), None, {})
    return Match(found.start(), found.end(_END), number, captures)
