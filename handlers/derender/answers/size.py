"""The size of an answer, from lengths that are known before it is made, so that none is made that is too large.

A request of a few kilobytes, compressed, may ask for an answer of a gigabyte: an id of two digits may have a
text of a hundred characters.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import orjson

from derender.errors import ResponseTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from derender.logprobs.entries import Entries
    from derender.models.model import ServedModel
    from derender.protocol.generate import PromptLogprobs
    from derender.vocabulary import Vocabulary

__all__ = ["check_answer_size", "prompt_ids"]

_PART: Final = 512
"""Bytes of a choice or of a chunk without text and logprobs."""
_MAX_TEXT: Final = 1024
"""More bytes than the text of a token has as JSON. Only if these would be too many, the texts are measured."""
_MAX_ROW: Final = 2048
"""The same for a token of logprobs, whose bytes are listed as numbers."""


def check_answer_size(
    model: ServedModel,
    texts: Sequence[tuple[Sequence[int], int]],
    logprobs: Sequence[tuple[Entries | None, int]],
    *,
    parts: int,
    repeated: int = 0,
) -> None:
    """Refuse a request whose answer would be too large.

    Args:
        model: The model.
        texts: Ids whose texts are in the answer, and how often.
        logprobs: Logprob entries that are in the answer, and how often.
        parts: Number of choices or chunks.
        repeated: Bytes of what else is repeated in each of them.

    Raises:
        ResponseTooLarge: The message says how large, and what is allowed.
    """
    rows = [(entries, times) for entries, times in logprobs if entries is not None]
    limit = model.limits.max_answer_bytes
    size = parts * _PART + repeated
    at_most = (
        size
        + sum(len(token_ids) * times for token_ids, times in texts) * _MAX_TEXT
        + sum(len(entries.tokens) * times for entries, times in rows) * _MAX_ROW
    )
    if at_most > limit:
        size += _measure_texts(model.vocabulary, texts)
        size += sum(model.logprobs.measure(entries) * times for entries, times in rows)
    if size > limit:
        raise ResponseTooLarge(
            f"the answer would have {size} bytes, and at most {limit} are allowed; ask for fewer candidates or "
            "fewer choices, send fewer generations at once, or raise DERENDER_MAX_ANSWER_BYTES"
        )


def prompt_ids(positions: Sequence[PromptLogprobs] | None) -> list[int]:
    """Return the ids whose texts are filled in in prompt logprobs."""
    return [int(token_id) for position in positions or () for token_id in position or ()]


def _measure_texts(vocabulary: Vocabulary, texts: Iterable[tuple[Sequence[int], int]]) -> int:
    counts: Counter[int] = Counter()
    for token_ids, times in texts:
        if times == 1:
            counts.update(token_ids)
        else:
            for token_id, count in Counter(token_ids).items():
                counts[token_id] += count * times
    return sum(count * _measure_text(vocabulary.pieces[token_id]) for token_id, count in counts.items())


def _measure_text(piece: bytes) -> int:
    return len(orjson.dumps(piece.decode(errors="replace"))) - len('""')
