"""Where in a text its tokens begin: where the text of the tokens before them ends.

A token that begins inside a character begins where the character does. Most places are never asked for, so they
are looked up instead of listed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from .detokenizer import detokenize
from .state import DetokenizerState

if TYPE_CHECKING:
    from derender.vocabulary import Vocabulary

__all__ = ["TokenPlaces", "TokenRun"]


class TokenRun(Struct, frozen=True, gc=False):
    """Tokens that were decoded together, and their text in the text that is parsed."""

    token_ids: Sequence[int]
    length: int
    """Characters of the text."""
    before: DetokenizerState
    """The state of decoding before the tokens."""
    is_whole: bool
    """Whether all tokens are known to begin before the end of the text."""


class TokenPlaces:
    """Counts the tokens of a text from its beginning on. Each is counted once, and all work is linear."""

    __slots__ = ("_begin", "_count", "_earlier", "_passed", "_place", "_run", "_runs", "_vocabulary", "_within")

    def __init__(
        self, vocabulary: Vocabulary, earlier: Sequence[int], runs: Sequence[TokenRun], begin: int
    ) -> None:
        """Count nothing yet.

        Args:
            vocabulary: The model's vocabulary.
            earlier: Places where tokens before the runs begin, in ascending order.
            runs: The runs of tokens.
            begin: The place where the first run begins.
        """
        self._vocabulary, self._earlier, self._runs = vocabulary, earlier, runs
        self._place = self._count = 0  # the last place that was asked for, and the tokens before it
        self._run, self._begin, self._passed = 0, begin, 0  # the run there, its place, and the tokens before it
        self._within: tuple[int, int, DetokenizerState] | None = None  # tokens of it, their length, the state

    def count(self, begin: int, end: int) -> int:
        """Count the tokens that begin from one place up to another, and were not counted before."""
        if begin > self._place:
            self._move(begin)
        before = self._count
        if end > self._place:
            self._move(end)
        return self._count - before

    def after(self, place: int) -> list[int]:
        """Return how far after a place the tokens begin that don't begin before it."""
        if place > self._place:
            self._move(place)
        if self._run == len(self._runs) and not self._earlier:
            return []
        places = [each - place for each in self._earlier if each >= place]
        begin, within = self._begin, self._within
        for run in self._runs[self._run :]:
            read, length, state = within or (0, 0, run.before)
            for token_id in run.token_ids[read:]:
                if begin + length >= place:
                    places.append(begin + length - place)
                text, state = detokenize(self._vocabulary, state, [token_id], skip_special_tokens=False)
                length += len(text)
            begin, within = begin + run.length, None
        return places

    def _move(self, place: int) -> None:
        """Count the tokens before a place."""
        begin, within = self._begin, 0
        while self._run < len(self._runs):
            run = self._runs[self._run]
            end = begin + run.length
            if end > place or (end == place and not run.is_whole):
                within = self._find_within(run, place - begin) if begin < place else 0
                break
            self._passed += len(run.token_ids)
            self._run += 1
            self._begin = begin = end
            self._within = None
        earlier = bisect_left(self._earlier, place) if self._earlier else 0
        self._place, self._count = place, earlier + self._passed + within

    def _find_within(self, run: TokenRun, length: int) -> int:
        """Count the tokens of a run that begin in its first characters, in steps that double, then halve."""
        read, decoded, state = self._within or (0, 0, run.before)
        step, doubles = 1, True
        while step and read < len(run.token_ids):
            token_ids = run.token_ids[read : read + step]
            text, next_state = detokenize(self._vocabulary, state, token_ids, skip_special_tokens=False)
            if decoded + len(text) < length:
                read, decoded, state = read + len(token_ids), decoded + len(text), next_state
            else:
                doubles = False
            step = step * 2 if doubles else step // 2
        self._within = read, decoded, state
        return min(read + 1, len(run.token_ids))
