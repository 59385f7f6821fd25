"""The strings of tokens, some of which end inside a character.

A token that ends inside a character has an empty string. The token that completes the character carries all
of it. The sampled tokens before a position are the context of all its candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from derender.decoding.detokenizer import token_text
from derender.decoding.utf8 import ends_character
from derender.vocabulary.cache import Cache

from .entries import GivenToken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.vocabulary import Vocabulary

    from .entries import Entries, Token

__all__ = ["CACHED_TOKENS", "MAX_CONTEXT", "TokenStrings"]

MAX_CONTEXT: Final = 16
"""Maximum number of preceding tokens searched for the beginning of a character. There may be several because
a token may end one character and begin the next."""
_MAX_INVALID_CONTEXT: Final = 4
"""The same if the bytes are not UTF-8, as in vLLM."""
CACHED_TOKENS: Final = 32_768


class TokenStrings:
    """The strings of a vocabulary's tokens.

    Attributes:
        alone: Each token's string without context.

    Args:
        vocabulary: The vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._ends_inside: Cache[int, bool] = Cache(
            lambda token_id: not ends_character(vocabulary.pieces[token_id]), CACHED_TOKENS
        )
        self.alone: Cache[int, str] = Cache(
            lambda token_id: "" if self._ends_inside[token_id] else token_text(vocabulary, (token_id,)),
            CACHED_TOKENS,
        )

    def extend_context(self, context: Sequence[int], entries: Entries) -> tuple[int, ...]:
        """Return the context of the entries that follow some others.

        Args:
            context: The context of the entries: the sampled tokens before them that end inside a character.
            entries: The entries.
        """
        if entries.ends:
            for place in (0, *entries.ends[:-1]):
                context = self._append(context, entries.tokens[place])
        return tuple(context)

    def find_completed(self, entries: Entries, context: Sequence[int]) -> list[tuple[int, int, str]]:
        """Find the tokens that complete a character which the tokens before them begin.

        If a token completes a character and begins another, it counts only if it is the sampled one: vLLM shows
        candidates like this.

        Args:
            entries: The entries.
            context: The sampled tokens before them that end inside a character.

        Returns:
            Place, id and string of each such token.
        """
        tokens, pieces = entries.tokens, self._vocabulary.pieces
        completed: list[tuple[int, int, str]] = []
        start = 0
        for end in entries.ends:
            sampled = tokens[start]
            if context:
                for place in range(start, end):
                    token = tokens[place]
                    if not isinstance(token, GivenToken) and (
                        self._ends_inside[token] or (token == sampled and _begins_inside(pieces[token]))
                    ):
                        completed.append((place, token, self._complete(context, token)))
            start = end
            context = self._append(context, sampled)
        return completed

    def _append(self, context: Sequence[int], sampled: Token) -> Sequence[int]:
        if isinstance(sampled, GivenToken):
            return ()
        if self._ends_inside[sampled]:
            return (*context, sampled)[-MAX_CONTEXT:]
        # A token without bytes leaves a character open.
        return () if self._vocabulary.pieces[sampled] else context

    def _complete(self, context: Sequence[int], token_id: int) -> str:
        """Return the text of a token with the least context that makes it valid.

        If none does, return its own text or, if that is empty, its text with the least context after which it
        ends a character.
        """
        ending = None
        for count in range(1, len(context) + 1):
            token_ids = (*context[-count:], token_id)
            data = b"".join(map(self._vocabulary.pieces.__getitem__, token_ids))
            try:
                return data.decode()
            except UnicodeDecodeError:
                if ending is None and count <= _MAX_INVALID_CONTEXT and ends_character(data):
                    ending = token_text(self._vocabulary, token_ids)
        return self.alone[token_id] or ending or ""


def _begins_inside(piece: bytes) -> bool:
    return piece[:1] >= b"\x80" and piece[:1] < b"\xc0"
