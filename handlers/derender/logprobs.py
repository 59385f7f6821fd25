"""Generate logprobs → OpenAI logprobs: ids and placeholders become token strings and bytes.

An answer holds thousands of candidates, so this works on columns: one list of names, one of numbers, for all
positions together. What a token looks like in JSON is written once and kept.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import orjson

from .detokenizer import decode, ends_character
from .errors import BadRequest
from .limits import out_of_vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .protocol.derender import ChatRequest, CompletionRequest
    from .protocol.generate import GenerateChoice, LogprobCandidate, PromptLogprobs
    from .vocabulary import Vocabulary

__all__ = [
    "Columns",
    "LogprobBytes",
    "LogprobWriter",
    "chat_candidates",
    "completion_candidates",
    "read_columns",
]

LogprobBytes = Literal["exact", "peer"]
"""What `bytes` are: the token's own, as the OpenAI API defines them; or those of its string, as in vLLM."""

_PLACEHOLDER: Final = re.compile(r"token_id:([+-]?[0-9]{1,100})", re.ASCII)
_CONTEXT: Final = 4
"""Preceding tokens that a character can have begun in: it has four bytes at most, and one is here."""
_CACHED_TOKENS: Final = 16_384


class GivenToken(NamedTuple):
    """A token that came as text and is passed on unchanged."""

    text: str
    bytes: tuple[int, ...] | None


Token = int | GivenToken


class Columns(NamedTuple):
    """The logprob entries of one choice, checked, as columns."""

    tokens: list[Token]
    """Of all positions one after another, the sampled one before its candidates."""
    logprobs: list[float]
    """Of each token."""
    ends: list[int]
    """Where each position ends."""
    with_candidates: list[bool]
    """Whether candidates came with each position, kept or not."""


def read_columns(choice: GenerateChoice, candidates: int | None, size: int) -> Columns | None:
    """Read the logprob entries of a choice, of either form.

    Args:
        choice: The generated sequence.
        candidates: How many to keep of each position; None for all.
        size: Number of ids in the vocabulary.

    Returns:
        The columns, or None where no entries came.

    Raises:
        BadRequest: An entry names no token, or one outside the vocabulary.
    """
    if choice.logprobs is None or choice.logprobs.content is None:
        return None
    entries = choice.logprobs.content
    rows: list[LogprobCandidate] = []
    ends: list[int] = []
    for entry in entries:
        rows.append(entry)
        if entry.top_logprobs:
            rows += entry.top_logprobs[:candidates]
        ends.append(len(rows))
    tokens, token_ids = _tokens(rows)
    if token_ids:
        for token_id in (max(token_ids), min(token_ids)):
            if not 0 <= token_id < size:
                raise out_of_vocabulary(token_id, "logprobs", size)
    return Columns(tokens, [row.logprob for row in rows], ends, [bool(entry.top_logprobs) for entry in entries])


def _tokens(rows: Sequence[LogprobCandidate]) -> tuple[list[Token], list[int]]:
    """The token that each entry names, in whichever form; and the ids among them."""
    named = [row.token_id for row in rows]
    if None in named:
        named = [
            _placeholder(row.token) if row.token_id is None and row.token is not None else row.token_id
            for row in rows
        ]
    if None in named:
        token_ids = [token_id for token_id in named if token_id is not None]
        tokens = zip(named, rows, strict=True)
        return [_given(row) if token_id is None else token_id for token_id, row in tokens], token_ids
    return cast("list[Token]", named), cast("list[int]", named)


@lru_cache(_CACHED_TOKENS)
def _placeholder(text: str) -> int | None:
    """`token_id:N` → N, and None for every other text."""
    number = _PLACEHOLDER.fullmatch(text)
    return int(number[1]) if number else None


def _given(row: LogprobCandidate) -> GivenToken:
    if row.token is None:
        raise BadRequest("logprobs: an entry has neither token_id nor token", param="logprobs")
    return GivenToken(row.token, None if row.bytes is None else tuple(row.bytes))


class _Strings(dict[Token, str]):
    """Token → its string without context: empty where it ends inside a character."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self.ending_inside: set[Token] = set()
        """Tokens seen so far that end inside a character."""
        self.beginning_inside: set[Token] = set()
        """Tokens seen so far that begin inside a character and end another."""

    def __missing__(self, token: Token) -> str:
        if len(self) >= _CACHED_TOKENS:
            self.clear()
        text = self[token] = token.text if isinstance(token, GivenToken) else self._own(token)
        return text

    def _own(self, token_id: int) -> str:
        piece = self._vocabulary.pieces[token_id]
        if not ends_character(piece):
            self.ending_inside.add(token_id)
            return ""
        if piece and 0x80 <= piece[0] < 0xC0:
            self.beginning_inside.add(token_id)
        return decode(self._vocabulary, (token_id,))


class _Written(dict[Token, bytes]):
    """Token → its JSON without context, up to the number: `{"token":…,"bytes":…,"logprob":`."""

    def __init__(self, vocabulary: Vocabulary, strings: _Strings, logprob_bytes: LogprobBytes) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._strings = strings
        self._exact = logprob_bytes == "exact"

    def __missing__(self, token: Token) -> bytes:
        if len(self) >= _CACHED_TOKENS:
            self.clear()
        written = self[token] = self.write(token, self._strings[token])
        return written

    def write(self, token: Token, text: str) -> bytes:
        """The JSON of a token whose string is known."""
        if isinstance(token, GivenToken):
            own = None if token.bytes is None else list(token.bytes)
        else:
            own = list(self._vocabulary.pieces[token] if self._exact else text.encode())
        return b'{"token":%b,"bytes":%b,"logprob":' % (orjson.dumps(text), orjson.dumps(own))


@cache
def _punctuation(length: int) -> list[bytes]:
    """What follows each number of a position, the sampled token's and its candidates'."""
    if length == 1:
        return [b',"top_logprobs":[]},']
    return [b',"top_logprobs":[', *[b"},"] * (length - 2), b"}]},"]


class LogprobWriter:
    """Writes the logprobs of one vocabulary.

    Args:
        vocabulary: The model's.
        logprob_bytes: What `bytes` are.
    """

    def __init__(self, vocabulary: Vocabulary, logprob_bytes: LogprobBytes) -> None:
        self._vocabulary = vocabulary
        self._strings = _Strings(vocabulary)
        self._written = _Written(vocabulary, self._strings, logprob_bytes)

    def chat(self, columns: Columns) -> bytes:
        """The `content` list of chat logprobs, as JSON."""
        tokens, numbers, ends, _ = columns
        if not tokens:
            return b"[]"
        written = list(map(self._written.__getitem__, tokens))
        for place, text in self._completed(tokens, ends):
            written[place] = self._written.write(tokens[place], text)
        punctuation: list[bytes] = []
        start = 0
        for end in ends:
            punctuation += _punctuation(end - start)
            start = end
        punctuation[-1] = punctuation[-1][:-1]
        parts = [b""] * (3 * len(tokens))
        parts[0::3] = written
        # One number formatter for all: dumping the list is many times faster than each by itself.
        parts[1::3] = orjson.dumps(numbers)[1:-1].split(b",")
        parts[2::3] = punctuation
        return b"[%b]" % b"".join(parts)

    def completion(self, columns: Columns) -> dict[str, Any]:
        """The parallel lists of completion logprobs."""
        tokens, numbers, ends, with_candidates = columns
        texts = list(map(self._strings.__getitem__, tokens))
        for place, text in self._completed(tokens, ends):
            texts[place] = text
        sampled: list[str] = []
        logprobs: list[float] = []
        top: list[dict[str, float] | None] = []
        offsets: list[int] = []
        start = offset = 0
        pairs = zip(texts, numbers, strict=True)
        for end, has_candidates in zip(ends, with_candidates, strict=True):
            text, logprob = next(pairs)
            sampled.append(text)
            logprobs.append(logprob)
            offsets.append(offset)
            offset += len(text)
            candidates_here = dict(islice(pairs, end - start - 1))
            top.append(candidates_here if has_candidates else None)
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
            position and {name: self._with_text(name, value) for name, value in position.items()}
            for position in positions
        ]

    def _with_text(self, token_id: str, value: dict[str, Any]) -> dict[str, Any]:
        if value.get("decoded_token", "") is not None:
            return value
        return {**value, "decoded_token": decode(self._vocabulary, (int(token_id),))}

    def _completed(self, tokens: Sequence[Token], ends: Sequence[int]) -> list[tuple[int, str]]:
        """The places of tokens that complete a character begun in the tokens before, and their strings.

        Only a position after a token that ends inside a character can hold one. The sampled tokens before
        are the context of all candidates of a position. Of those that begin inside a character and end a later
        one, only the sampled token is completed: vLLM shows the candidates so.
        """
        beginning_inside, ending_inside = self._strings.beginning_inside, self._strings.ending_inside
        if not ending_inside:
            return []
        completed: list[tuple[int, str]] = []
        begun: list[int] = []
        start = 0
        for end in ends:
            sampled = tokens[start]
            if begun:
                for place in range(start, end):
                    token = tokens[place]
                    if isinstance(token, int) and (
                        token in ending_inside or (token == sampled and token in beginning_inside)
                    ):
                        completed.append((place, self._complete(begun, token)))
            if sampled in ending_inside and isinstance(sampled, int):
                begun = [*begun, sampled][-_CONTEXT:]
            else:
                begun = []
            start = end
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
                if ending is None and ends_character(data):
                    ending = decode(self._vocabulary, token_ids)
        own = self._strings[token_id]
        return own if own or ending is None else ending


def chat_candidates(request: ChatRequest | None) -> int | None:
    """How many candidates a chat client gets of each position; None for all."""
    if request is None or not request.logprobs:
        return None
    if request.logprob_token_ids or request.top_logprobs == -1:
        return None
    return max(request.top_logprobs, 0)


def completion_candidates(request: CompletionRequest | None) -> int | None:
    """How many candidates, the sampled one among them, a completions client gets; None for all."""
    if request is None or request.logprobs is None:
        return None
    if request.logprob_token_ids or request.logprobs == -1:
        return None
    return max(request.logprobs, 0) + 1
