"""Answer a streamed request: one or several generate chunks, and the state after the chunks before them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from uuid import uuid4

from derender.answers.choices import Prompt, resolve_prompt
from derender.answers.size import check_answer_size
from derender.protocol.limits import check_prompt_token_ids, check_stream_size

from .checks import check_order, read_chunk
from .seal import open_state, seal_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.protocol.base import WireModel
    from derender.protocol.client import ClientRequest
    from derender.protocol.stream import StreamRequest, StreamState

    from .generation import Generation
    from .state import GenerationState

__all__ = ["Derendered", "derender_chunks"]

ChunkT = TypeVar("ChunkT", bound="WireModel", covariant=True)


class Derendered(NamedTuple, Generic[ChunkT]):
    """The answer to a streamed request."""

    chunks: Sequence[ChunkT]
    """One for each generate chunk."""
    events: Sequence[ChunkT]
    """Those that have something for a client."""
    state: StreamState
    """The state to send with the next chunks."""
    complete: bool
    """Whether all choices have finished, and usage has come if the client asked for it."""
    generation: GenerationState
    """The state, opened."""


def derender_chunks(
    generation: Generation[ClientRequest, ChunkT], request: StreamRequest, created: int
) -> Derendered[ChunkT]:
    """Derender the next chunks of a generation. All of them are checked before any is decoded.

    Args:
        generation: The generation, for the client's request.
        request: The generate chunks, and the state.
        created: Unix time in seconds, for the first chunk.

    Raises:
        BadRequest: The request can't be answered.
    """
    model = generation.model
    chunks = request.chunks
    indexes = {choice.index for chunk in chunks for choice in chunk.choices}
    check_stream_size("generate_chunks", len(chunks), len(indexes))
    if request.generate_chunks is None:
        paths = ["generate_chunk"]
    else:
        paths = [f"generate_chunks.{place}" for place in range(len(chunks))]
    limits, candidates = model.limits, generation.client.candidates
    checked = [read_chunk(path, chunk, candidates, limits) for path, chunk in zip(paths, chunks, strict=True)]
    check_prompt_token_ids("prompt_token_ids", request.prompt_token_ids, limits)
    state = None
    if request.stream_state is not None:
        state = open_state(model.seal, generation.endpoint, generation.parser, request.stream_state)
    check_order(state, checked, paths, limits)

    prompt = resolve_prompt(request.prompt_token_ids, chunks[0])
    if state is None or not indexes <= state.choices.keys():
        generation = generation.for_prompt(Prompt(prompt, request.prompt_tokens))
    begun = set() if state is None else state.choices.keys()
    check_answer_size(
        model,
        [(choice.token_ids or (), 1) for chunk in chunks for choice in chunk.choices],
        [(each.entries, 1) for each in checked],
        parts=len(chunks),
        repeated=len(generation.echoed) * len(indexes - begun),
    )
    if state is None:
        state = generation.begin(chunks[0].request_id or uuid4().hex, prompt, created)
    answers: list[ChunkT] = []
    events: list[ChunkT] = []
    for each in checked:
        answer, state, is_empty = generation.derender(state, each)
        answers.append(answer)
        if not is_empty or each.chunk.usage is not None:
            events.append(answer)
    sealed = seal_state(model.seal, generation.endpoint, generation.parser, state)
    return Derendered(answers, events, sealed, generation.is_complete(state), state)
