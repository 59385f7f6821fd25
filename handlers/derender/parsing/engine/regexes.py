r"""Regular expressions that someone else wrote, searched in a text that comes in pieces.

A match counts once nothing that follows can change it. An expression tries its alternatives in an order: if one
that comes before the match, or that begins before it, runs into the end of the text, it may still be taken. The
`regex` package says whether one does, for an expression that has no match; so what is searched is the
expression and, after it, what is never there. That fails at the end of the text, unless the text ended before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex
from regex import error

from .patterns import Found, Regular, as_regular

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .patterns import Markers, Pattern

__all__ = ["RegexScanner", "compiled", "error"]

_END: Final = "__end__"
"""Group that says that the whole expression was read, and where it ends."""
_NEVER: Final = rf"(?P<{_END}>)(?s:.*+.)"
_WINDOW: Final = 256
"""Characters that are searched at first: a text may be long, and what is looked for near."""


def compiled(expression: str) -> tuple[regex.Pattern[str], regex.Pattern[str]]:
    """An expression, and the one that is searched while there may be more text.

    Raises:
        error: It is none.
    """
    return regex.compile(expression, regex.DOTALL), regex.compile(f"(?:{expression}){_NEVER}", regex.DOTALL)


class RegexScanner:
    """Searches for the first of several patterns, of which some are regular expressions.

    Of those at one place it is the longest, of two as long the earlier in the list.

    Args:
        patterns: The patterns.
        markers: How markers are written in the text.
    """

    __slots__ = ("_final", "_growing", "_running")

    def __init__(self, patterns: Sequence[Pattern | Regular], markers: Markers) -> None:
        pairs = [
            compiled(pattern.expression if isinstance(pattern, Regular) else as_regular(pattern, markers))
            for pattern in patterns
        ]
        self._final = [final for final, _ in pairs]
        self._running = [running for _, running in pairs]
        self._growing = [isinstance(pattern, Regular) for pattern in patterns]

    def search(self, text: str, start: int, *, final: bool = False, cut: bool = False) -> Found | None:  # noqa: ARG002
        """Find the first pattern, from a place on. Patterns may look at what is before it.

        Args:
            text: The text.
            start: The place.
            final: Whether the output ends with the text: nothing is held, and there may be nothing found.
        """
        if final:
            return self._search_all(text, start)
        size = _WINDOW
        while True:
            end = min(start + size, len(text))
            found = self._search(text, start, end)
            if found.pattern is not None or end == len(text):
                return found
            start, size = found.start, 2 * size

    def _search_all(self, text: str, start: int) -> Found | None:
        matches = ((number, each.search(text, start)) for number, each in enumerate(self._final))
        return _first([_found(number, match) for number, match in matches if match])

    def _search(self, text: str, start: int, end: int) -> Found:
        # What is held begins where the search does, and is looked at again whenever there is more text.
        here = (each.match(text, start, end, partial=True) for each in self._running)
        if any(self._settled(number, match, end).pattern is None for number, match in enumerate(here) if match):
            return Found(start, end, None, {})
        there = (each.search(text, start, end, partial=True) for each in self._running)
        found = [self._settled(number, match, end) for number, match in enumerate(there) if match]
        held = min((each.start for each in found if each.pattern is None), default=end)
        first = _first([each for each in found if each.pattern is not None])
        return first if first and first.start < held else Found(held, end, None, {})

    def _settled(self, number: int, match: regex.Match[str], end: int) -> Found:
        found = _found(number, match)
        # What `$` means at the end of the text depends on what follows.
        waits = found.end == end and self._growing[number]
        return found._replace(pattern=None) if waits else found


def _first(found: Sequence[Found]) -> Found | None:
    return min(found, key=lambda each: (each.start, -each.end, each.pattern), default=None)


def _found(number: int, match: regex.Match[str]) -> Found:
    captures = {name: value for name, value in match.groupdict().items() if value is not None}
    if not match.partial:
        return Found(match.start(), match.end(), number, captures)
    end = captures.pop(_END, None)
    if end is None:
        return Found(match.start(), match.end(), None, {})
    return Found(match.start(), match.end(_END), number, captures)
