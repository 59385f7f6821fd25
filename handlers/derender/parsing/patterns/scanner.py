"""Search for the first of several patterns, with Python's `re`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from derender.parsing.characters import WHITESPACE

from .parts import END_OF_OUTPUT, LINES, MAX_SPACE, NO_SPACE, NUMBER, SPACE, either, join

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from .parts import Part, Pattern

__all__ = ["LEADING", "Match", "Scanner", "space_before"]

_NEVER: Final = "(?!)"
LEADING: Final[Mapping[Part | str, str]] = {SPACE: WHITESPACE, LINES: "\r\n"}
"""White space that a pattern may begin with."""
_GROUP: Final = re.compile(rf"\(\?P<\w+{NUMBER}>")
_CAPTURE: Final = re.compile(rf"\(\?P<(\w+{NUMBER})>(\[(?:\\.|[^\]\\])+\]\{{[\d,]+\}}\+)\)")
_SAME: Final = re.compile(rf"\(\?P=(\w+{NUMBER})\)")


class Match(NamedTuple):
    """What a search found."""

    start: int
    end: int
    pattern: int | None
    """The pattern's number; None for a partial match: the rest of the text may yet become a pattern."""
    captures: dict[str, str]


class Scanner:
    """Searches for the first of several patterns. If two begin at one place, the earlier in the list wins.

    Args:
        patterns: The patterns.
        markers: Marker text → character.
        anchored: Numbers of patterns that match only where the search begins, or behind white space there.
            They stand beside `ANYTHING`, which matches there while the text goes on.
    """

    __slots__ = ("_begins", "_held", "_leading", "_running", "_whole", "_whole_later")

    def __init__(
        self,
        patterns: Sequence[Pattern],
        markers: Mapping[str, str],
        *,
        anchored: Collection[int] = (),
    ) -> None:
        wholes, alternatives, firsts = [], [], []
        # Text is full of white space, so leading space is added once the rest of a pattern has matched.
        self._leading = {
            number: LEADING[pattern[0]] for number, pattern in enumerate(patterns) if pattern[0] in LEADING
        }
        # What is held back may begin with white space of any of them.
        self._held = max(self._leading.values(), key=len, default="")
        for number, pattern in enumerate(patterns):
            rest = pattern[1:] if number in self._leading else pattern
            whole, partial, first, empty = join(rest, markers)
            whole = f"(?P<p{number}>{whole})".replace(NUMBER, str(number))
            wholes.append(whole)
            # Partial before whole: a part at the end of the text may still grow.
            alternatives += [_without_groups(partial), whole]
            firsts.append(None if empty else first)
        first = either(firsts)
        self._begins = re.compile("(?s:.)" if first is None else f"[{first}]" if first else _NEVER)
        running = "|".join(alternatives) or _NEVER
        self._running = re.compile(running.replace(END_OF_OUTPUT, _NEVER).replace(NO_SPACE, f"[^{WHITESPACE}]"))
        self._whole = _compile_whole(wholes)
        later = [whole for number, whole in enumerate(wholes) if number not in anchored]
        self._whole_later = _compile_whole(later) if anchored else self._whole

    def search(self, text: str, start: int, *, final: bool = False, cut: bool = False) -> Match | None:
        """Find the first pattern.

        Args:
            text: The text.
            start: Where to begin.
            final: Whether the output ends with the text. Then nothing is held, and there may be no match.
            cut: Whether the output was cut there, which is no `END`.
        """
        expression = self._whole[cut] if final else self._running
        later = self._whole_later[cut] if final else self._running
        place = start
        while candidate := self._begins.search(text, place):
            if match := expression.match(text, candidate.start()):
                return self._match(text, start, match)
            place = candidate.end()
            if candidate[0] not in WHITESPACE:
                expression = later
        if final:
            match = expression.match(text, len(text))
            return match and self._match(text, start, match)
        return Match(space_before(text, len(text), start, self._held), len(text), None, {})

    def _match(self, text: str, start: int, match: re.Match[str]) -> Match:
        group = match.lastgroup
        if group is None:
            return Match(space_before(text, match.start(), start, self._held), match.end(), None, {})
        number = int(group[1:])
        return Match(
            space_before(text, match.start(), start, self._leading.get(number, "")),
            match.end(),
            number,
            {
                name.rpartition("_")[0]: value
                for name, value in match.groupdict().items()
                if value is not None and "_" in name
            },
        )


def _compile_whole(wholes: Sequence[str]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compile what matches at the output's end: at the end of a whole output, and of one that was cut."""
    expression = ("|".join(wholes) or _NEVER).replace(NO_SPACE, _NEVER)
    return (
        re.compile(expression.replace(END_OF_OUTPUT, r"\Z")),
        re.compile(expression.replace(END_OF_OUTPUT, _NEVER)),
    )


def _without_groups(partial: str) -> str:
    """Return an expression that captures nothing. What was captured before may be any text of its set."""
    captured = dict(_CAPTURE.findall(partial))
    return _GROUP.sub("(?:", _SAME.sub(lambda same: captured[same[1]], partial))


def space_before(text: str, end: int, start: int, space: str) -> int:
    """Return where the white space before a place begins.

    Args:
        text: The text.
        end: The place.
        start: Where it begins at the earliest.
        space: The characters that are white space.
    """
    least = max(start, end - MAX_SPACE)
    while end > least and text[end - 1] in space:
        end -= 1
    return end
