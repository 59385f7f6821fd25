"""The logprob entries of a generated choice, of either form, read into columns.

A response has thousands of candidates. Operations on whole lists keep them fast.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import orjson

from derender.errors import BadRequest
from derender.protocol.limits import out_of_vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.protocol.generate import GenerateChoice
    from derender.protocol.logprobs import LogprobCandidate

__all__ = ["PREFIX", "Entries", "GivenToken", "Token", "read_entries"]

PREFIX: Final = "token_id:"
"""What precedes an id that stands for a token's text."""
_PLACEHOLDER: Final = re.compile(rf"{PREFIX}([+-]?[0-9]{{1,100}})", re.ASCII)


class GivenToken(NamedTuple):
    """A token that the generate server sent as text. It is passed on unchanged."""

    text: str
    bytes: tuple[int, ...] | None


Token = int | GivenToken


class Entries(NamedTuple):
    """The logprob entries of one choice, checked."""

    tokens: list[Token]
    """All positions, flattened: the sampled token, then its candidates."""
    logprobs: list[float]
    """The log probability of each token."""
    ends: list[int]
    """Where each position ends in these lists."""
    with_candidates: list[bool]
    """Whether each position came with candidates, even if none are kept."""
    only_ids: bool
    """Whether all tokens are ids."""

    @classmethod
    def of_ids(cls, token_ids: Sequence[int]) -> Entries:
        """Make entries of sampled tokens whose log probabilities are not known."""
        count = len(token_ids)
        return cls(list(token_ids), [0.0] * count, list(range(1, count + 1)), [False] * count, only_ids=True)

    def first(self, count: int) -> Entries:
        """Return the first positions."""
        ends = self.ends[:count]
        end = ends[-1] if ends else 0
        return self._replace(
            tokens=self.tokens[:end],
            logprobs=self.logprobs[:end],
            ends=ends,
            with_candidates=self.with_candidates[:count],
        )


def read_entries(
    path: str, choices: Sequence[GenerateChoice], candidates: int | None, size: int
) -> list[Entries | None]:
    """Read the logprob entries of each choice; None for a choice without any.

    Args:
        path: Path of the generate response in the request, for errors.
        choices: Its choices.
        candidates: Maximum number of candidates to keep at each position; None for all.
        size: Number of ids in the vocabulary.

    Raises:
        BadRequest: An entry names no token, or one outside the vocabulary.
    """
    return [
        _read(f"{path}.choices.{place}.logprobs", choice, candidates, size)
        for place, choice in enumerate(choices)
    ]


def _read(path: str, choice: GenerateChoice, candidates: int | None, size: int) -> Entries | None:
    if choice.logprobs is None or choice.logprobs.content is None:
        return None
    content = choice.logprobs.content
    rows: list[LogprobCandidate] = []
    ends: list[int] = []
    for entry in content:
        rows.append(entry)
        if entry.top_logprobs:
            rows += entry.top_logprobs[:candidates]
        ends.append(len(rows))
    tokens, token_ids = _read_tokens(path, rows, ends)
    if token_ids:
        for token_id in (max(token_ids), min(token_ids)):
            if not 0 <= token_id < size:
                raise out_of_vocabulary(_row_path(path, ends, tokens.index(token_id)), token_id, size)
    return Entries(
        tokens,
        [row.logprob for row in rows],
        ends,
        [bool(entry.top_logprobs) for entry in content],
        len(token_ids) == len(tokens),
    )


def _read_tokens(
    path: str, rows: Sequence[LogprobCandidate], ends: Sequence[int]
) -> tuple[list[Token], list[int]]:
    """Return the token that each row names, in either form, and the ids among them."""
    named = [row.token_id for row in rows]
    if None not in named:
        return cast("list[Token]", named), cast("list[int]", named)
    unnamed = rows if named.count(None) == len(rows) else [row for row in rows if row.token_id is None]
    texts = [row.token for row in unnamed]
    if None in texts:
        nameless = next(n for n, row in enumerate(rows) if row.token_id is None and row.token is None)
        place = _row_path(path, ends, nameless)
        raise BadRequest(f"{place} has neither token_id nor token", param=place)
    numbers = _read_placeholders(cast("list[str]", texts))
    if unnamed is rows and None not in numbers:
        return cast("list[Token]", numbers), cast("list[int]", numbers)
    given = (
        GivenToken(row.token or "", None if row.bytes is None else tuple(row.bytes))
        if number is None
        else number
        for row, number in zip(unnamed, numbers, strict=True)
    )
    tokens = [next(given) if token_id is None else token_id for token_id in named]
    return tokens, [token for token in tokens if not isinstance(token, GivenToken)]


def _row_path(path: str, ends: Sequence[int], row: int) -> str:
    """Return the path of a row in the request."""
    entry = bisect_right(ends, row)
    candidate = row - (ends[entry - 1] if entry else 0)
    of_candidate = f".top_logprobs.{candidate - 1}" if candidate else ""
    return f"{path}.content.{entry}{of_candidate}"


def _read_placeholders(texts: list[str]) -> list[int | None]:
    """Return N for each `token_id:N`, None for any other text."""
    # Almost always all texts are placeholders. Then one call of a JSON parser reads all their numbers. They are
    # placeholders if each line of the joined texts has the prefix and the rest is a number, without the white
    # space that JSON would skip.
    lines = "\n".join(texts)
    numbers = lines.split(f"\n{PREFIX}")
    if (
        lines.startswith(PREFIX)
        and lines.count("\n") == len(texts) - 1 == len(numbers) - 1
        and not any(space in lines for space in " \t\r")
    ):
        try:
            token_ids = orjson.loads(f"[{','.join(numbers)[len(PREFIX) :]}]")
        except orjson.JSONDecodeError:
            token_ids = []
        if len(token_ids) == len(texts) and set(map(type, token_ids)) == {int}:
            return cast("list[int | None]", token_ids)
    return [int(number[1]) if (number := _PLACEHOLDER.fullmatch(text)) else None for text in texts]
