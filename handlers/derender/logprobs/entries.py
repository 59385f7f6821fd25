"""The logprob entries of a generate response, of either form, as columns.

An answer holds thousands of candidates: what is done with them is done to whole lists.
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

    from derender.protocol.generate import GenerateChoice, LogprobCandidate

__all__ = ["Columns", "GivenToken", "Token", "first_columns", "id_columns", "read_columns"]

_PREFIX: Final = "token_id:"
_PLACEHOLDER: Final = re.compile(rf"{_PREFIX}([+-]?[0-9]{{1,100}})", re.ASCII)


class GivenToken(NamedTuple):
    """A token that came as text and is passed on unchanged."""

    text: str
    bytes: tuple[int, ...] | None


Token = int | GivenToken


class Columns(NamedTuple):
    """The logprob entries of one choice, checked."""

    tokens: list[Token]
    """Of all positions one after another, the sampled one before its candidates."""
    logprobs: list[float]
    """Of each token."""
    ends: list[int]
    """Where each position ends."""
    with_candidates: list[bool]
    """Whether candidates came with each position, kept or not."""
    only_ids: bool
    """Whether every token is an id."""


def read_columns(
    path: str, choices: Sequence[GenerateChoice], candidates: int | None, size: int
) -> list[Columns | None]:
    """Read the logprob entries of each choice; None where a choice has none.

    Args:
        path: Where the generate response is in the request.
        choices: Its choices.
        candidates: How many to keep of each position; None for all.
        size: Number of ids in the vocabulary.

    Raises:
        BadRequest: An entry names no token, or one outside the vocabulary.
    """
    return [
        _read(f"{path}.choices.{place}.logprobs", choice, candidates, size)
        for place, choice in enumerate(choices)
    ]


def id_columns(token_ids: Sequence[int]) -> Columns:
    """Sampled tokens of which nothing but their ids came."""
    count = len(token_ids)
    return Columns(list(token_ids), [0.0] * count, list(range(1, count + 1)), [False] * count, only_ids=True)


def first_columns(columns: Columns, count: int) -> Columns:
    """The first entries of a choice."""
    ends = columns.ends[:count]
    end = ends[-1] if ends else 0
    return columns._replace(
        tokens=columns.tokens[:end],
        logprobs=columns.logprobs[:end],
        ends=ends,
        with_candidates=columns.with_candidates[:count],
    )


def _read(path: str, choice: GenerateChoice, candidates: int | None, size: int) -> Columns | None:
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
    tokens, token_ids = _tokens(path, rows, ends)
    if token_ids:
        for token_id in (max(token_ids), min(token_ids)):
            if not 0 <= token_id < size:
                raise out_of_vocabulary(_place(path, ends, tokens.index(token_id)), token_id, size)
    return Columns(
        tokens,
        [row.logprob for row in rows],
        ends,
        [bool(entry.top_logprobs) for entry in entries],
        len(token_ids) == len(tokens),
    )


def _tokens(path: str, rows: Sequence[LogprobCandidate], ends: Sequence[int]) -> tuple[list[Token], list[int]]:
    """The token that each entry names, in whichever form; and the ids among them."""
    named = [row.token_id for row in rows]
    if None not in named:
        return cast("list[Token]", named), cast("list[int]", named)
    unnamed = rows if named.count(None) == len(rows) else [row for row in rows if row.token_id is None]
    texts = [row.token for row in unnamed]
    if None in texts:
        nameless = next(n for n, row in enumerate(rows) if row.token_id is None and row.token is None)
        place = _place(path, ends, nameless)
        raise BadRequest(f"{place} has neither token_id nor token", param=place)
    numbers = _placeholders(cast("list[str]", texts))
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


def _place(path: str, ends: Sequence[int], row: int) -> str:
    """Where in the request a token is that stands at a place of the columns."""
    entry = bisect_right(ends, row)
    candidate = row - (ends[entry - 1] if entry else 0)
    of_candidate = f".top_logprobs.{candidate - 1}" if candidate else ""
    return f"{path}.content.{entry}{of_candidate}"


def _placeholders(texts: list[str]) -> list[int | None]:
    """`token_id:N` → N, and None for every other text."""
    # Almost always all are placeholders: then one parser reads all numbers. They are if, one a line, each line
    # begins with the prefix and goes on as a number, with none of the space that the parser would pass over.
    lines = "\n".join(texts)
    numbers = lines.split(f"\n{_PREFIX}")
    if (
        lines.startswith(_PREFIX)
        and lines.count("\n") == len(texts) - 1 == len(numbers) - 1
        and not any(space in lines for space in " \t\r")
    ):
        try:
            token_ids = orjson.loads(f"[{','.join(numbers)[len(_PREFIX) :]}]")
        except orjson.JSONDecodeError:
            token_ids = []
        if len(token_ids) == len(texts) and set(map(type, token_ids)) == {int}:
            return cast("list[int | None]", token_ids)
    return [int(number[1]) if (number := _PLACEHOLDER.fullmatch(text)) else None for text in texts]
