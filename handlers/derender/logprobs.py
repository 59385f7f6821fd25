"""Generate logprobs → OpenAI logprobs: ids and placeholders become token strings and bytes.

An answer holds thousands of candidates, so this works on columns: one list of names, one of numbers, for all
positions together. What a token looks like in JSON is written once and kept.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import orjson

from .detokenizer import REPLACEMENT, decode
from .errors import BadRequest
from .limits import out_of_vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .protocol.derender import ChatRequest, CompletionRequest
    from .protocol.generate import LogprobCandidate, LogprobEntry
    from .vocabulary import Vocabulary

__all__ = ["LogprobBytes", "LogprobWriter", "chat_candidates", "completion_candidates"]

LogprobBytes = Literal["exact", "peer"]
"""What `bytes` are: the token's own, as the OpenAI API defines them; or those of its string, as in vLLM."""

_PLACEHOLDER: Final = "token_id:"
_CONTEXT: Final = 4
"""Preceding tokens that a character can have begun in: it has four bytes at most, and one is here."""
_CACHED_TOKENS: Final = 16_384


class GivenToken(NamedTuple):
    """A token that came as text and is passed on unchanged."""

    text: str
    bytes: tuple[int, ...] | None


Token = int | GivenToken


class _Strings(dict[Token, str]):
    """Token → its string without context: empty where it ends inside a character."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self.partial: set[Token] = set()
        """Tokens seen so far that end inside a character."""

    def __missing__(self, token: Token) -> str:
        if len(self) >= _CACHED_TOKENS:
            self.clear()
        text = token.text if isinstance(token, GivenToken) else decode(self._vocabulary, (token,))
        if not isinstance(token, GivenToken) and text.endswith(REPLACEMENT):
            self.partial.add(token)
            text = ""
        self[token] = text
        return text


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

    def chat(self, entries: Sequence[LogprobEntry], candidates: int | None) -> bytes:
        """The `content` list of chat logprobs, as JSON.

        Args:
            entries: One for each generated token.
            candidates: How many to keep of each position; None for all.

        Raises:
            BadRequest: An entry names no token, or one outside the vocabulary.
        """
        tokens, numbers, ends = self._columns(entries, candidates)
        written = list(map(self._written.__getitem__, tokens))
        for place, text in self._completed(tokens, ends):
            written[place] = self._written.write(tokens[place], text)
        # One number formatter for all: dumping the list is many times faster than each by itself.
        items = list(map(add, written, orjson.dumps(numbers)[1:-1].split(b",")))
        rows, start = [], 0
        for end in ends:
            kept = b"},".join(items[start + 1 : end])
            rows.append(b'%b,"top_logprobs":[%b' % (items[start], kept + b"}]}" if kept else b"]}"))
            start = end
        return b"[" + b",".join(rows) + b"]"

    def completion(self, entries: Sequence[LogprobEntry], candidates: int | None) -> dict[str, Any]:
        """The parallel lists of completion logprobs.

        Args:
            entries: One for each generated token.
            candidates: How many to keep of each position; None for all.

        Raises:
            BadRequest: An entry names no token, or one outside the vocabulary.
        """
        tokens, numbers, ends = self._columns(entries, candidates)
        texts = list(map(self._strings.__getitem__, tokens))
        for place, text in self._completed(tokens, ends):
            texts[place] = text
        sampled: list[str] = []
        logprobs: list[float] = []
        top: list[dict[str, float] | None] = []
        offsets: list[int] = []
        start = offset = 0
        for entry, end in zip(entries, ends, strict=True):
            sampled.append(texts[start])
            logprobs.append(numbers[start])
            offsets.append(offset)
            offset += len(texts[start])
            row = dict(zip(texts[start + 1 : end], numbers[start + 1 : end], strict=True))
            top.append(row if entry.top_logprobs else None)
            start = end
        return {"tokens": sampled, "token_logprobs": logprobs, "top_logprobs": top, "text_offset": offsets}

    def prompt(self, positions: Sequence[dict[str, Any] | None]) -> list[dict[str, Any] | None]:
        """Prompt logprobs with each `decoded_token` that is null filled in.

        Args:
            positions: For each prompt token null, or token id → `{logprob, rank, decoded_token}`.

        Raises:
            BadRequest: An id is outside the vocabulary.
        """
        return [
            position and {name: self._with_text(name, value) for name, value in position.items()}
            for position in positions
        ]

    def _with_text(self, name: str, value: Any) -> Any:
        if not (isinstance(value, dict) and value.get("decoded_token", "") is None and name.isdecimal()):
            return value
        token_id = self._known(int(name), "prompt_logprobs")
        return {**value, "decoded_token": decode(self._vocabulary, (token_id,))}

    def _columns(
        self, entries: Sequence[LogprobEntry], candidates: int | None
    ) -> tuple[list[Token], list[float], list[int]]:
        """All tokens and numbers in one list each, the sampled one before its candidates; where each ends."""
        rows: list[LogprobCandidate] = []
        ends: list[int] = []
        for entry in entries:
            rows.append(entry)
            if entry.top_logprobs:
                rows += entry.top_logprobs[:candidates]
            ends.append(len(rows))
        named = [row.token_id for row in rows]
        tokens: list[Token] = (
            [self._token(row) for row in rows] if None in named else named  # type: ignore[assignment]
        )
        known = self._vocabulary.manifest.size
        for token in set(tokens):
            if isinstance(token, int) and not 0 <= token < known:
                self._known(token, "logprobs")
        return tokens, [row.logprob for row in rows], ends

    def _token(self, row: LogprobCandidate) -> Token:
        """The token that an entry of either form names."""
        if row.token_id is not None:
            return row.token_id
        if row.token is None:
            raise BadRequest("logprobs: an entry has neither token_id nor token", param="logprobs")
        number = row.token.removeprefix(_PLACEHOLDER)
        if number != row.token:
            try:
                return int(number)
            except ValueError:
                pass
        return GivenToken(row.token, None if row.bytes is None else tuple(row.bytes))

    def _known(self, token_id: int, what: str) -> int:
        size = self._vocabulary.manifest.size
        if not 0 <= token_id < size:
            raise out_of_vocabulary(token_id, what, size)
        return token_id

    def _completed(self, tokens: Sequence[Token], ends: Sequence[int]) -> list[tuple[int, str]]:
        """The places of tokens that complete a character begun in the tokens before, and the character.

        Only a position after a token that ends inside a character can hold one. The sampled tokens before
        are the context of all candidates of a position.
        """
        partial = self._strings.partial
        if not partial:
            return []
        completed: list[tuple[int, str]] = []
        begun: list[int] = []
        start = 0
        for end in ends:
            if begun:
                for place in range(start, end):
                    token = tokens[place]
                    if token in partial and isinstance(token, int):
                        completed.append((place, self._complete(begun, token)))
            sampled = tokens[start]
            begins = sampled in partial and isinstance(sampled, int)
            begun = [*begun, sampled][-_CONTEXT:] if begins else []
            start = end
        return completed

    def _complete(self, begun: Sequence[int], token_id: int) -> str:
        """The string of a token that ends inside a character by itself: what the fewest tokens before make
        whole with it, or nothing."""
        for count in range(1, len(begun) + 1):
            text = decode(self._vocabulary, (*begun[-count:], token_id))
            if not text.endswith(REPLACEMENT):
                return text
        return ""


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
