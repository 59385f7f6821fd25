"""Find stop strings, with work that is linear in the text and does not depend on how many there are.

`str.find` is fast, but may compare each character of the text with each of a string. So a few short strings are
found that way, and more of them by the automaton of Aho and Corasick ("Efficient String Matching", 1975). Its
state is the longest end of the text that begins a stop string.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Found", "StopStrings"]

_MAX_COMPARED: Final = 128
"""Maximum length of all strings that `str.find` looks for."""


class Found(NamedTuple):
    """A stop string in a text."""

    end: int
    """Where it ends."""
    string: str


class StopStrings:
    """Stop strings to look for, at least one. What finds them is made when it is first needed.

    Args:
        strings: The strings.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self.strings = strings

    def look(self, text: str, exempt: int) -> Found | int:
        """Look for the one that is complete first. If several end together, the first listed counts.

        Args:
            text: The text.
            exempt: Length of the beginning within which none may end (`min_tokens`).

        Returns:
            What was found, or else the length of the longest end of the text that may become one of them.
        """
        lengths = list(map(len, self.strings))
        if sum(lengths) <= _MAX_COMPARED:
            return _compare(self.strings, text, exempt)
        return self._automaton.look(text, max(min(exempt, len(text)) + 1 - max(lengths), 0), exempt)

    @cached_property
    def _automaton(self) -> _Automaton:
        return _Automaton(self.strings)


def _compare(strings: Iterable[str], text: str, exempt: int) -> Found | int:
    end, found, begun = len(text) + 1, None, 0
    for string in strings:
        start = text.find(string, max(0, exempt + 1 - len(string)))
        if start >= 0 and start + len(string) < end:
            end, found = start + len(string), string
    if found is not None:
        return Found(end, found)
    for string in strings:
        for length in range(min(len(string) - 1, len(text)), begun, -1):
            if string.startswith(text[-length:]):
                begun = length
                break
    return begun


class _Automaton:
    """The beginnings of some strings, as nodes. Node 0 is the empty one.

    Args:
        strings: The strings.
    """

    __slots__ = ("_depths", "_ended", "_longer", "_shorter", "_strings")

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = strings
        self._longer: list[dict[str, int]] = [{}]  # by a character: the beginning with it at the end
        self._depths = [0]  # the length
        self._ended: list[int | None] = [None]  # the first listed string that ends here
        for number, string in enumerate(strings):
            node = 0
            for character in string:
                if character not in self._longer[node]:
                    self._longer[node][character] = len(self._longer)
                    self._longer.append({})
                    self._depths.append(self._depths[node] + 1)
                    self._ended.append(None)
                node = self._longer[node][character]
            if self._ended[node] is None:
                self._ended[node] = number
        self._shorter = [0] * len(self._longer)  # the longest other beginning that it ends with
        self._link()

    def _link(self) -> None:
        ended, shorter = self._ended, self._shorter
        nodes = deque(self._longer[0].values())
        while nodes:
            node = nodes.popleft()
            ends = [number for number in (ended[node], ended[shorter[node]]) if number is not None]
            ended[node] = min(ends, default=None)
            for character, following in self._longer[node].items():
                shorter[following] = self._follow(shorter[node], character)
                nodes.append(following)

    def _follow(self, node: int, character: str) -> int:
        """Return the longest beginning that one ends with after one more character."""
        while node and character not in self._longer[node]:
            node = self._shorter[node]
        return self._longer[node].get(character, 0)

    def look(self, text: str, begin: int, exempt: int) -> Found | int:
        """Look for a string in a text from a place on (`StopStrings.look`)."""
        node, longer, ended = 0, self._longer, self._ended
        for end, character in enumerate(text[begin:], begin + 1):
            following = longer[node].get(character)
            node = self._follow(node, character) if following is None else following
            if (number := ended[node]) is not None and end > exempt:
                return Found(end, self._strings[number])
        while node and not longer[node]:
            node = self._shorter[node]  # a string that is complete, but exempt
        return self._depths[node]
