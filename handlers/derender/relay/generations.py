"""A generation on its way: events of a generate server → chunks of the client's stream. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

import orjson

from derender.errors import BadGateway, DerenderError, UpstreamFailed
from derender.protocol.generate import ChunkChoice, ChunkUsage, GenerateChunk
from derender.protocol.openai import ChatCompletionChunk, TextCompletionChunk, Usage
from derender.protocol.reading import read
from derender.streaming.generation import CheckedChunk, begin, check, check_order
from derender.telemetry.answer_facts import count_candidates

from .refusals import refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from derender.protocol.derender import ClientRequest
    from derender.streaming.generation import Generation
    from derender.streaming.state import GenerationState

__all__ = [
    "NOT_FOR_CLIENTS",
    "Progress",
    "RelayedGeneration",
    "advance",
    "cut",
    "has_ended",
    "has_finished",
    "start",
    "stop",
    "usage_chunk",
]

_PATH: Final = "chunk"
NOT_FOR_CLIENTS: Final[dict[str, None]] = {"kv_transfer_params": None, "ec_transfer_params": None}
"""What servers tell each other: where caches are."""

ChunkT = TypeVar("ChunkT", ChatCompletionChunk, TextCompletionChunk)


@dataclass(frozen=True)
class RelayedGeneration(Generic[ChunkT]):
    """One prompt's generation.

    Attributes:
        generation: How it is derendered. Its client's `n` is how many choices are generated.
        request_id: The answer's id.
        token_ids: The prompt.
        created: Unix time in seconds.
        first_choice: Number of its first choice in the answer.
        continuous_usage: Whether usage is in every chunk.
        secrets: What no message to the client may hold.
    """

    generation: Generation[ClientRequest, ChunkT]
    request_id: str
    token_ids: Sequence[int]
    created: int
    first_choice: int = 0
    continuous_usage: bool = False
    secrets: Sequence[str] = field(default=(), repr=False)


class Progress(NamedTuple):
    """Where a generation is."""

    state: GenerationState
    upstream_id: str | None = None
    """The id that its events have: not always the one that was asked for."""
    usage: ChunkUsage | None = None
    """What the generate server counted."""
    last: GenerateChunk = GenerateChunk.model_construct(choices=[])
    """What came besides choices, at the end."""
    candidates: int = 0
    """How many logprob candidates came."""

    @property
    def received(self) -> int:
        """How many ids came."""
        return sum(choice.received for choice in self.state.choices.values())


def start(relayed: RelayedGeneration[ChunkT]) -> Progress:
    """Where a generation is before its first event."""
    return Progress(begin(relayed.generation, relayed.request_id, relayed.token_ids, relayed.created))


def advance(
    relayed: RelayedGeneration[ChunkT], progress: Progress, data: bytes
) -> tuple[ChunkT | None, Progress]:
    """What an event adds to the answer.

    Args:
        relayed: The generation.
        progress: Where it is.
        data: The event's data.

    Returns:
        The chunk to send, if there is anything to say; where the generation is now.

    Raises:
        BadGateway: The event is no generate chunk, or can't follow those before.
        UpstreamRefusal: It is an error that is the client's.
    """
    generation = relayed.generation
    chunk, checked = _checked(relayed, progress, data)
    usage = progress.usage
    if chunk.usage is not None and (not chunk.choices or generation.count == 1):
        usage = chunk.usage
    progress = progress._replace(
        usage=usage,
        upstream_id=progress.upstream_id or chunk.request_id,
        candidates=progress.candidates + count_candidates(chunk.choices),
    )
    if not chunk.choices:
        return None, progress._replace(last=chunk)
    (choice,) = chunk.choices
    before = progress.state.choices.get(choice.index)
    silent = before is not None and before.stopped is not None and choice.finish_reason is None
    if before is None and chunk.prompt_token_ids is None and generation.client.return_token_ids:
        prompt = {"prompt_token_ids": list(relayed.token_ids)}
        checked = checked._replace(chunk=chunk.model_copy(update=prompt))
    answer, state = generation.derender(progress.state, checked)
    progress = progress._replace(state=state)
    if relayed.continuous_usage:
        reported = answer.usage or generation.usage(ChunkUsage(completion_tokens=progress.received))
        return _numbered(relayed, answer, usage=reported), progress
    return None if silent else _numbered(relayed, answer), progress


def has_finished(relayed: RelayedGeneration[ChunkT], progress: Progress) -> bool:
    """Whether the generate server has ended all choices."""
    return progress.state.finished(relayed.generation.count)


def has_ended(relayed: RelayedGeneration[ChunkT], progress: Progress) -> bool:
    """Whether all choices have ended, by the generate server or by a stop string."""
    choices = progress.state.choices.values()
    return len(choices) >= relayed.generation.count and all(
        choice.finished or choice.stopped is not None for choice in choices
    )


def stop(relayed: RelayedGeneration[ChunkT], progress: Progress) -> tuple[list[ChunkT], Progress]:
    """End the choices whose stop string is complete.

    Returns:
        A chunk for each that the generate server has not ended; where the generation is then.
    """
    answers, state = [], progress.state
    for index, choice in progress.state.choices.items():
        if choice.stopped is not None and not choice.finished:
            answer, state = relayed.generation.derender(state, _final(index, "stop"))
            answers.append(_numbered(relayed, answer))
    return answers, progress._replace(state=state)


def cut(relayed: RelayedGeneration[ChunkT], progress: Progress) -> list[ChunkT]:
    """What was held back of a generation that breaks off, without a reason to finish."""
    answers, progress = stop(relayed, progress)
    for index, choice in progress.state.choices.items():
        if not choice.finished:
            answer, _ = relayed.generation.derender(progress.state, _final(index, "error"))
            (said,) = answer.choices
            unfinished = said.model_copy(update={"finish_reason": None, "stop_reason": None})
            answers.append(_numbered(relayed, answer.model_copy(update={"choices": [unfinished]})))
    return answers


def usage_chunk(generations: Iterable[tuple[RelayedGeneration[ChunkT], Progress]]) -> ChunkT:
    """The chunk that says the usage of a whole answer.

    What a generate server counted is said where it is not less than what came: one that was ended early, or
    does not count, leaves that to the relay.
    """
    several = list(generations)
    (relayed, first), *others = several
    usages = [_usage(*each) for each in several]
    answer, _ = relayed.generation.derender(first.state, CheckedChunk(first.last, None))
    prompt = sum(usage.prompt_tokens for usage in usages)
    generated = sum(usage.completion_tokens for usage in usages)
    total = Usage(prompt_tokens=prompt, completion_tokens=generated, total_tokens=prompt + generated)
    return answer.model_copy(update={"usage": total if others else usages[0]})


def _usage(relayed: RelayedGeneration[ChunkT], progress: Progress) -> Usage:
    counted = progress.usage
    if counted is None or (counted.completion_tokens or 0) < progress.received:
        counted = ChunkUsage(completion_tokens=progress.received)
    usage = relayed.generation.usage(counted)
    assert usage is not None
    return usage


def _checked(
    relayed: RelayedGeneration[ChunkT], progress: Progress, data: bytes
) -> tuple[GenerateChunk, CheckedChunk]:
    generation = relayed.generation
    try:
        chunk = read(GenerateChunk, data).model_copy(update=NOT_FOR_CLIENTS)
        checked = check(generation, _PATH, chunk)
        # The id is the answer's, whatever the generate server makes of it.
        own = chunk.model_copy(update={"request_id": None})
        check_order(progress.state, [CheckedChunk(own, None)], [_PATH], generation.model.limits)
    except DerenderError as error:
        raise _reported(data, relayed.secrets) or BadGateway(
            "the generate server sent what can't be derendered", quoting=error.message
        ) from None
    if chunk.request_id is not None and progress.upstream_id not in (None, chunk.request_id):
        raise BadGateway("the generate server sent an event of another generation")
    if any(not 0 <= choice.index < generation.count for choice in chunk.choices):
        raise BadGateway("the generate server sent a choice that was not asked for")
    return chunk, checked


def _reported(data: bytes, secrets: Sequence[str]) -> DerenderError | None:
    """The error that an event reports, where it does."""
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(content, dict) or "error" not in content:
        return None
    error = content["error"]
    code = error.get("code") if isinstance(error, dict) else None
    return refusal(code, content, secrets=secrets) or UpstreamFailed("the generate server reported an error")


def _final(index: int, reason: str) -> CheckedChunk:
    choice = ChunkChoice(index=index, finish_reason=reason)
    return CheckedChunk(GenerateChunk(choices=[choice]), None)


def _numbered(relayed: RelayedGeneration[ChunkT], answer: ChunkT, *, usage: Usage | None = None) -> ChunkT:
    """The chunk with the answer's numbers of choices, and the usage that it is to have."""
    update: dict[str, object] = {"usage": usage}
    if relayed.first_choice:
        update["choices"] = [
            choice.model_copy(update={"index": relayed.first_choice + choice.index})
            for choice in answer.choices
        ]
    return answer.model_copy(update=update)
