"""Checks of generate chunks, before anything is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from derender.errors import BadRequest
from derender.logprobs.entries import read_entries
from derender.protocol.limits import check_chunk, check_count, check_length

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.logprobs.entries import Entries
    from derender.protocol.generate import GenerateChunk
    from derender.protocol.limits import Limits

    from .state import GenerationState

__all__ = ["CheckedChunk", "check_order", "read_chunk"]


class CheckedChunk(NamedTuple):
    """A generate chunk within its bounds."""

    chunk: GenerateChunk
    entries: Entries | None
    """The logprobs of its choice."""


def read_chunk(path: str, chunk: GenerateChunk, candidates: int | None, limits: Limits) -> CheckedChunk:
    """Check a generate chunk and read its logprobs.

    Args:
        path: Path of the chunk in the request, for errors.
        chunk: The generate chunk.
        candidates: Maximum number of candidates to keep at each position; None for all.
        limits: The model's limits.

    Raises:
        BadRequest: It is out of bounds, has several choices, or is from another model.
    """
    check_chunk(path, chunk, limits)
    entries = read_entries(path, chunk.choices, candidates, limits.vocabulary_size)
    return CheckedChunk(chunk, entries[0] if entries else None)


def check_order(
    state: GenerationState | None, chunks: Sequence[CheckedChunk], paths: Sequence[str], limits: Limits
) -> None:
    """Refuse chunks that can't follow those before them.

    Args:
        state: The state of the generation; None at its beginning.
        chunks: The chunks.
        paths: Their paths in the request, for errors.
        limits: The model's limits.

    Raises:
        BadRequest: A chunk is from another generation, or of a choice that has finished or is too long.
    """
    request_id = None if state is None else state.request_id
    choices = {} if state is None else state.choices
    finished = {index for index, choice in choices.items() if choice.finished}
    received = {index: choice.received for index, choice in choices.items()}
    for (chunk, _), path in zip(chunks, paths, strict=True):
        if chunk.request_id is not None and chunk.request_id != (request_id := request_id or chunk.request_id):
            raise BadRequest(
                "the chunk belongs to another generation: its request_id differs from that of earlier chunks",
                param=f"{path}.request_id",
            )
        for choice in chunk.choices:
            if choice.index in finished:
                raise BadRequest(
                    f"choice {choice.index} has finished: an earlier chunk has its finish_reason",
                    param=f"{path}.choices.0",
                )
            if choice.finish_reason is not None:
                finished.add(choice.index)
            received[choice.index] = received.get(choice.index, 0) + len(choice.token_ids or ())
            check_length(f"{path}.choices.0.token_ids", received[choice.index], limits)
    check_count("choices", len(received), limits)
