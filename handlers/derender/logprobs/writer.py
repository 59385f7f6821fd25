"""Write logprob entries as the OpenAI API does."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from operator import sub
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from derender.decoding.detokenizer import token_text
from derender.vocabulary.cache import Cache

from .entries import PREFIX, GivenToken
from .strings import CACHED_TOKENS, TokenStrings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.protocol.generate import PromptLogprobs
    from derender.vocabulary import Vocabulary

    from .entries import Entries, Token

__all__ = ["LogprobBytes", "LogprobWriter"]

LogprobBytes = Literal["exact", "peer"]
"""What `bytes` contains: the token's own bytes, as the OpenAI API defines it, or those of its string, as in
vLLM."""

_ROW: Final = 40
"""Bytes of an entry besides its token and its bytes."""


class LogprobWriter:
    """Writes the logprobs of one model.

    Attributes:
        strings: The strings of the model's tokens.
        logprob_bytes: What `bytes` contains.

    Args:
        vocabulary: The model's vocabulary.
        logprob_bytes: What `bytes` contains.
    """

    def __init__(self, vocabulary: Vocabulary, logprob_bytes: LogprobBytes) -> None:
        self.strings = TokenStrings(vocabulary)
        self._vocabulary = vocabulary
        self.logprob_bytes = logprob_bytes
        self._json: Cache[int, bytes] = Cache(
            lambda token_id: self._write_token(token_id, self.strings.alone[token_id]), CACHED_TOKENS
        )
        self._json_by_id: Cache[int, bytes] = Cache(
            lambda token_id: self._write_token(token_id, self.strings.alone[token_id], by_id=True),
            CACHED_TOKENS,
        )

    def measure(self, entries: Entries) -> int:
        """Return about how many bytes the entries have once they are written."""
        return sum(
            count * (_ROW + (len(token.text) if isinstance(token, GivenToken) else len(self._json[token])))
            for token, count in Counter(entries.tokens).items()
        )

    def write_chat(
        self, entries: Entries | None, context: Sequence[int] = (), *, by_id: bool = False
    ) -> orjson.Fragment:
        """Write the `logprobs` of a chat choice, as JSON.

        Args:
            entries: The choice's entries.
            context: The sampled tokens before them that end inside a character (`TokenStrings.extend_context`).
            by_id: Whether to name tokens `token_id:N`. Their `bytes` stay.
        """
        if entries is None:
            return orjson.Fragment(b'{"content":null}')
        tokens, numbers, ends, _, only_ids = entries
        if not tokens:
            return orjson.Fragment(b'{"content":[]}')
        json = self._json_by_id if by_id else self._json
        if only_ids:
            written = list(map(json.__getitem__, tokens))  # type: ignore[arg-type]
        else:
            written = [
                _write_token(token.text, token.bytes) if isinstance(token, GivenToken) else json[token]
                for token in tokens
            ]
        for place, token_id, text in self.strings.find_completed(entries, context):
            written[place] = self._write_token(token_id, text, by_id=by_id)
        lengths = list(map(sub, ends, [0, *ends]))
        by_length = {length: _punctuation(length) for length in set(lengths)}
        punctuation = [each for length in lengths for each in by_length[length]]
        punctuation[-1] = punctuation[-1].removesuffix(b",")
        parts = [b""] * (3 * len(tokens))
        parts[0::3] = written
        # Writing all numbers as one list is many times faster than writing each by itself.
        parts[1::3] = orjson.dumps(numbers)[1:-1].split(b",")
        parts[2::3] = punctuation
        return orjson.Fragment(b'{"content":[%b]}' % b"".join(parts))

    def write_completion(
        self, entries: Entries | None, context: Sequence[int] = (), offset: int = 0, *, by_id: bool = False
    ) -> dict[str, Any]:
        """Write the `logprobs` of a text completion's choice: parallel lists.

        Args:
            entries: The choice's entries.
            context: The sampled tokens before them that end inside a character (`TokenStrings.extend_context`).
            offset: Number of characters of the strings of the tokens before them.
            by_id: Whether to name tokens `token_id:N`.
        """
        if entries is None:
            return {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        numbers, ends, with_candidates = entries.logprobs, entries.ends, entries.with_candidates
        texts = list(map(_name, entries.tokens)) if by_id else self._texts(entries, context)
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

    def _texts(self, entries: Entries, context: Sequence[int]) -> list[str]:
        """Return the strings of all tokens of the entries."""
        alone = self.strings.alone
        if entries.only_ids:
            texts = list(map(alone.__getitem__, entries.tokens))  # type: ignore[arg-type]
        else:
            texts = [token.text if isinstance(token, GivenToken) else alone[token] for token in entries.tokens]
        for place, _, text in self.strings.find_completed(entries, context):
            texts[place] = text
        return texts

    def write_prompt(self, positions: Sequence[PromptLogprobs] | None) -> list[PromptLogprobs] | None:
        """Fill in each `decoded_token` that is null in prompt logprobs.

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
        return {**value, "decoded_token": token_text(self._vocabulary, (int(token_id),))}

    def _write_token(self, token_id: int, text: str, *, by_id: bool = False) -> bytes:
        piece = self._vocabulary.pieces[token_id]
        own = piece if self.logprob_bytes == "exact" else text.encode() if piece else None
        return _write_token(_name(token_id) if by_id else text, own)


def _name(token: Token) -> str:
    return token.text if isinstance(token, GivenToken) else f"{PREFIX}{token}"


def _write_token(text: str, own: Sequence[int] | None) -> bytes:
    """Write a token's JSON up to the number: `{"token":…,"bytes":…,"logprob":`."""
    numbers = None if own is None else list(own)
    return b'{"token":%b,"bytes":%b,"logprob":' % (orjson.dumps(text), orjson.dumps(numbers))


def _punctuation(length: int) -> list[bytes]:
    """Return what follows each number of a position: the sampled token's, then its candidates'."""
    if length == 1:
        return [b',"top_logprobs":[]},']
    return [b',"top_logprobs":[', *[b"},"] * (length - 2), b"}]},"]
