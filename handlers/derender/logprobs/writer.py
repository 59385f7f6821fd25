"""Columns of logprobs → OpenAI logprobs: ids become token strings and bytes.

What a token looks like without context follows from the vocabulary, and is made once and kept.
"""

from __future__ import annotations

from itertools import islice
from operator import sub
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from derender.decoding.detokenizer import decode, ends_character
from derender.vocabulary.cache import Cache

from .entries import GivenToken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.protocol.generate import PromptLogprobs
    from derender.vocabulary import Vocabulary

    from .entries import Columns, Token

__all__ = ["CONTEXT", "LogprobBytes", "LogprobWriter"]

LogprobBytes = Literal["exact", "peer"]
"""What `bytes` are: the token's own, as the OpenAI API defines them; or those of its string, as in vLLM."""

CONTEXT: Final = 16
"""Preceding tokens that are looked at for the beginning of a character. Characters that end and begin within
one token make a chain of them."""
_INVALID_CONTEXT: Final = 4
"""The same where the bytes are no UTF-8, as in vLLM."""
_KEPT_TOKENS: Final = 32_768


class LogprobWriter:
    """Writes the logprobs of one vocabulary.

    Args:
        vocabulary: The model's.
        logprob_bytes: What `bytes` are.
    """

    def __init__(self, vocabulary: Vocabulary, logprob_bytes: LogprobBytes) -> None:
        self.logprob_bytes = logprob_bytes
        self._vocabulary = vocabulary
        self._strings: Cache[int, str] = Cache(self._string, _KEPT_TOKENS)
        self._written: Cache[int, bytes] = Cache(lambda token_id: self._write(token_id, None), _KEPT_TOKENS)
        self._ending_inside: Cache[int, bool] = Cache(self._ends_inside, _KEPT_TOKENS)

    def chat(self, columns: Columns | None, begun: Sequence[int] = ()) -> orjson.Fragment:
        """The `logprobs` of a chat choice, as JSON.

        Args:
            columns: The choice's entries.
            begun: The sampled tokens before them that end inside a character (`begun_after`).
        """
        if columns is None:
            return orjson.Fragment(b'{"content":null}')
        tokens, numbers, ends, _, only_ids = columns
        if not tokens:
            return orjson.Fragment(b'{"content":[]}')
        if only_ids:
            written = list(map(self._written.__getitem__, tokens))  # type: ignore[arg-type]
        else:
            written = [
                _write_token(token.text, token.bytes) if isinstance(token, GivenToken) else self._written[token]
                for token in tokens
            ]
        for place, token_id, text in self._completed(tokens, ends, begun):
            written[place] = self._write(token_id, text)
        lengths = list(map(sub, ends, [0, *ends]))
        after = {length: _punctuation(length) for length in set(lengths)}
        punctuation = [each for length in lengths for each in after[length]]
        punctuation[-1] = punctuation[-1].removesuffix(b",")
        parts = [b""] * (3 * len(tokens))
        parts[0::3] = written
        # One number formatter for all: dumping the list is many times faster than each by itself.
        parts[1::3] = orjson.dumps(numbers)[1:-1].split(b",")
        parts[2::3] = punctuation
        return orjson.Fragment(b'{"content":[%b]}' % b"".join(parts))

    def completion(self, columns: Columns | None, begun: Sequence[int] = (), offset: int = 0) -> dict[str, Any]:
        """The `logprobs` of a completion choice: parallel lists.

        Args:
            columns: The choice's entries.
            begun: The sampled tokens before them that end inside a character (`begun_after`).
            offset: Characters of the tokens before them.
        """
        if columns is None:
            return {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        tokens, numbers, ends, with_candidates, only_ids = columns
        if only_ids:
            texts = list(map(self._strings.__getitem__, tokens))  # type: ignore[arg-type]
        else:
            texts = [token.text if isinstance(token, GivenToken) else self._strings[token] for token in tokens]
        for place, _, text in self._completed(tokens, ends, begun):
            texts[place] = text
        sampled: list[str] = []
        logprobs: list[float] = []
        top: list[dict[str, float] | None] = []
        offsets: list[int] = []
        start = 0
        pairs = zip(texts, numbers, strict=True)
        for end, has_candidates in zip(ends, with_candidates, strict=True):
            text, logprob = next(pairs)
            sampled.append(text)
            logprobs.append(logprob)
            offsets.append(offset)
            offset += len(text)
            candidates = dict(islice(pairs, end - start - 1))
            top.append(candidates if has_candidates else None)
            start = end
        return {"tokens": sampled, "token_logprobs": logprobs, "top_logprobs": top, "text_offset": offsets}

    def prompt(self, positions: Sequence[PromptLogprobs] | None) -> list[PromptLogprobs] | None:
        """Prompt logprobs with each `decoded_token` that is null filled in.

        Args:
            positions: For each prompt token null, or token id → `{logprob, rank, decoded_token}`.
        """
        if positions is None:
            return None
        return [
            position and {token_id: self._with_text(token_id, value) for token_id, value in position.items()}
            for position in positions
        ]

    def _with_text(self, token_id: str, value: dict[str, Any]) -> dict[str, Any]:
        if value.get("decoded_token", "") is not None:
            return value
        return {**value, "decoded_token": decode(self._vocabulary, (int(token_id),))}

    def _ends_inside(self, token_id: int) -> bool:
        return not ends_character(self._vocabulary.pieces[token_id])

    def _string(self, token_id: int) -> str:
        """A token's string without context: empty where it ends inside a character."""
        return "" if self._ending_inside[token_id] else decode(self._vocabulary, (token_id,))

    def _write(self, token_id: int, text: str | None) -> bytes:
        """A token's JSON; its string is the one without context where none is given."""
        string = self._strings[token_id] if text is None else text
        piece = self._vocabulary.pieces[token_id]
        if self.logprob_bytes == "exact":
            return _write_token(string, piece)
        return _write_token(string, string.encode() if piece else None)

    def begun_after(self, columns: Columns | None, begun: Sequence[int] = ()) -> tuple[int, ...]:
        """The last sampled tokens that end inside a character: what more entries have to be read with.

        Args:
            columns: Entries.
            begun: The same of those before them.
        """
        if columns is not None and columns.ends:
            for place in (0, *columns.ends[:-1]):
                begun = self._begun(begun, columns.tokens[place])
        return tuple(begun)

    def _begun(self, begun: Sequence[int], sampled: Token) -> Sequence[int]:
        if isinstance(sampled, GivenToken):
            return ()
        if self._ending_inside[sampled]:
            return (*begun, sampled)[-CONTEXT:]
        # An id without a token leaves a character open.
        return () if self._vocabulary.pieces[sampled] else begun

    def _completed(
        self, tokens: Sequence[Token], ends: Sequence[int], begun: Sequence[int]
    ) -> list[tuple[int, int, str]]:
        """Tokens that complete a character begun in the tokens before: their places, ids and strings.

        The sampled tokens before a position are the context of all its candidates. Of those that begin inside a
        character and end a later one, only the sampled token is completed: vLLM shows the candidates so.
        """
        ending_inside, pieces = self._ending_inside, self._vocabulary.pieces
        completed: list[tuple[int, int, str]] = []
        start = 0
        for end in ends:
            sampled = tokens[start]
            if begun:
                for place in range(start, end):
                    token = tokens[place]
                    if not isinstance(token, GivenToken) and (
                        ending_inside[token] or (token == sampled and _begins_inside(pieces[token]))
                    ):
                        completed.append((place, token, self._complete(begun, token)))
            start = end
            begun = self._begun(begun, sampled)
        return completed

    def _complete(self, begun: Sequence[int], token_id: int) -> str:
        """What a token says after tokens that end inside a character.

        That is the text of the fewest of them that make it whole; where none do, of the fewest after which it
        ends a character; else its own.
        """
        ending = None
        for count in range(1, len(begun) + 1):
            token_ids = (*begun[-count:], token_id)
            data = b"".join(map(self._vocabulary.pieces.__getitem__, token_ids))
            try:
                return data.decode()
            except UnicodeDecodeError:
                if ending is None and count <= _INVALID_CONTEXT and ends_character(data):
                    ending = decode(self._vocabulary, token_ids)
        own = self._strings[token_id]
        return own if own or ending is None else ending


def _begins_inside(piece: bytes) -> bool:
    return piece[:1] >= b"\x80" and piece[:1] < b"\xc0"


def _write_token(text: str, own: Sequence[int] | None) -> bytes:
    """A token's JSON up to the number: `{"token":…,"bytes":…,"logprob":`."""
    numbers = None if own is None else list(own)
    return b'{"token":%b,"bytes":%b,"logprob":' % (orjson.dumps(text), orjson.dumps(numbers))


def _punctuation(length: int) -> list[bytes]:
    """What follows each number of a position, the sampled token's and its candidates'."""
    if length == 1:
        return [b',"top_logprobs":[]},']
    return [b',"top_logprobs":[', *[b"},"] * (length - 2), b"}]},"]
