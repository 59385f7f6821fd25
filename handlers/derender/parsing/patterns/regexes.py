r"""Search for regular expressions that someone else wrote, in text that arrives in pieces.

A match counts once nothing that follows can change it. An expression tries its alternatives in order: if an
alternative before the match, or a match that begins earlier, runs into the end of the text, it may still win.
The `regex` package tells whether one does, but only for an expression that does not match. So the scanner
searches the expression followed by something that is never there, which fails at the end of the text unless
the text ended before.

An expression is shown `MAX_MATCH` characters from each place on, so no match is longer. That makes work linear
in the text, unless the expression takes exponential time or nearly so. Then it is given up after `TIMEOUT`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import regex

from derender.parsing.characters import WHITESPACE

from .parts import END_OF_OUTPUT, NO_SPACE, NUMBER, Regex, join
from .scanner import LEADING, Match, space_before

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .parts import Pattern

__all__ = ["MAX_MATCH", "TIMEOUT", "RegexScanner", "compile_regex"]

_END: Final = "__end__"
"""Group that tells that the whole expression was read, and where it ends."""
_NEVER: Final = rf"(?P<{_END}>)(?s:.*+.)"
_LOOKS_BACK: Final = re.compile(r"\(\?<[=!]|\\[BbGmMKA]|(?<!\[)\^")
"""What looks at the text before a match."""
_ASCII: Final = [chr(code) for code in range(0x80)]
MAX_MATCH: Final = 512
"""Longest match, without white space that a pattern allows before it."""
TIMEOUT: Final = 1.0
"""Seconds of CPU after which an expression is given up."""


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

    __slots__ = ("_begins", "_held", "_patterns")

    def __init__(self, patterns: Sequence[Pattern | Regex], markers: Mapping[str, str]) -> None:
        self._patterns = [_compile(pattern, markers) for pattern in patterns]
        # What is held back may begin with white space of any of them.
        self._held = max((each.leading for each in self._patterns), key=len, default="")
        self._begins = re.compile("|".join([each.begins for each in self._patterns]) or "(?!)")

    def search(self, text: str, start: int, *, final: bool = False, cut: bool = False) -> Match | None:  # noqa: ARG002
        """Find the first pattern. Patterns may look at the text before `start`.

        Args:
            text: The text.
            start: Where to begin.
            final: Whether the output ends with the text. Then nothing is held, and there may be no match.
            cut: Ignored: these patterns have no `END`.

        Raises:
            TimeoutError: An expression takes too long.
        """
        place = start
        while candidate := self._begins.search(text, place):
            place = candidate.start()
            matches = [
                match
                for number, each in enumerate(self._patterns)
                if (match := each.match(text, place, number, final=final))
            ]
            if any(each.pattern is None for each in matches):
                return Match(space_before(text, place, start, self._held), len(text), None, {})
            if matches:
                first = min(matches, key=lambda each: (-each.end, each.pattern))
                leading = self._patterns[first.pattern or 0].leading
                return first._replace(start=space_before(text, place, start, leading))
            place += 1
        return None if final else Match(space_before(text, len(text), start, self._held), len(text), None, {})


class _Compiled(NamedTuple):
    """A pattern, compiled."""

    final: regex.Pattern[str]
    """The pattern as it is."""
    running: regex.Pattern[str]
    """The pattern as it is searched while more text may follow."""
    grows: bool
    """Whether what follows may change a match at the end of the text, as with `$`."""
    begins: str
    """Matches the characters that it may begin with."""
    leading: str
    """White space that belongs to it if it stands before it."""

    def match(self, text: str, place: int, number: int, *, final: bool) -> Match | None:
        """Match it at a place, as the pattern of a number. A match without a number may yet become one."""
        end = min(place + MAX_MATCH, len(text))
        if final and end == len(text):
            found = self.final.match(text, place, end, timeout=TIMEOUT)
        else:
            found = self.running.match(text, place, end, partial=True, timeout=TIMEOUT)
        if found is None:
            return None
        captures = {name: value for name, value in found.groupdict().items() if value is not None}
        if not found.partial:
            return Match(place, found.end(), number, captures)
        whole = captures.pop(_END, None) is not None
        if whole and not (self.grows and found.end(_END) == end):
            return Match(place, found.end(_END), number, captures)
        return Match(place, end, None, {}) if end == len(text) else None


def _compile(pattern: Pattern | Regex, markers: Mapping[str, str]) -> _Compiled:
    if isinstance(pattern, Regex):
        expression, leading = pattern.expression, pattern.leading
    else:
        leading = LEADING.get(pattern[0], "")
        expression = _to_regex(pattern[1:] if leading else pattern, markers)
    final, running = compile_regex(expression)
    return _Compiled(final, running, isinstance(pattern, Regex), _find_beginnings(expression, running), leading)


def _find_beginnings(expression: str, running: regex.Pattern[str]) -> str:
    """Return a set of characters that holds all that an expression may begin with."""
    nothing = running.match("", partial=True)
    if _LOOKS_BACK.search(expression) or (nothing and nothing.end(_END) == 0):
        return "(?s:.)"
    found = "".join([re.escape(each) for each in _ASCII if running.match(each, partial=True)])
    # Others are too many to try.
    return rf"[{found}\x80-\U0010ffff]"


def _to_regex(pattern: Pattern, markers: Mapping[str, str]) -> str:
    return (
        join(pattern, markers)
        .whole.replace(f"_{NUMBER}", "")
        .replace(END_OF_OUTPUT, r"\Z")
        .replace(NO_SPACE, f"[^{WHITESPACE}]")
    )
