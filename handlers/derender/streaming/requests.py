"""A streamed request, of one generate chunk or several → chunks, and the state to send with the next ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from uuid import uuid4

from derender.answers.choices import prompt_ids
from derender.protocol.limits import check_prompt_token_ids, check_streamed

from .generation import begin, check, check_order
from .sealing import open_state, seal_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.protocol.base import WireModel
    from derender.protocol.derender import ClientRequest
    from derender.protocol.stream import StreamRequest, StreamState

    from .generation import Generation
    from .state import GenerationState

__all__ = ["Derendered", "derender_chunks"]

ChunkT = TypeVar("ChunkT", bound="WireModel", covariant=True)


class Derendered(NamedTuple, Generic[ChunkT]):
    """What a streamed request is answered with."""

    chunks: Sequence[ChunkT]
    state: StreamState
    """To be sent with the next chunks."""
    finished: bool
    """Whether the generation has ended."""
    generation: GenerationState
    """Where it is: what the state says, open."""


def derender_chunks(
    generation: Generation[ClientRequest, ChunkT], request: StreamRequest, created: int
) -> Derendered[ChunkT]:
    """Derender some more of a generation.

    All of the request is checked before anything is decoded.

    Args:
        generation: How it is derendered.
        request: The generate chunks, and the state.
        created: Unix time in seconds, for the first chunk.

    Raises:
        BadRequest: The request can't be answered.
    """
    model = generation.model
    chunks = request.chunks
    indexes = {choice.index for chunk in chunks for choice in chunk.choices}
    check_streamed("generate_chunks", len(chunks), len(indexes))
    one = request.generate_chunk is not None
    paths = ["generate_chunk" if one else f"generate_chunks.{place}" for place in range(len(chunks))]
    checked = [check(generation, path, chunk) for path, chunk in zip(paths, chunks, strict=True)]
    check_prompt_token_ids("prompt_token_ids", request.prompt_token_ids, model.limits)
    state = None
    if request.stream_state is not None:
        state = open_state(model.seal, generation.endpoint, generation.parser, request.stream_state)
    check_order(state, checked, paths, model.limits)
    if state is None:
        first = chunks[0]
        prompt = prompt_ids(request.prompt_token_ids, first)
        state = begin(generation, first.request_id or uuid4().hex, prompt, created)
    answers: list[ChunkT] = []
    for each in checked:
        answer, state = generation.derender(state, each)
        answers.append(answer)
    sealed = seal_state(model.seal, generation.endpoint, generation.parser, state)
    return Derendered(answers, sealed, generation.finished(state), state)
