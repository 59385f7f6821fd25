"""Streamed answers: the generations of all prompts, derendered event by event."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from anyio import current_time, move_on_after

from derender.errors import DerenderError, UpstreamLost
from derender.http.sse import DONE, encode_event
from derender.protocol.openai import ChatCompletionChunk, TextCompletionChunk, Usage
from derender.telemetry.answer_facts import find_outcomes
from derender.telemetry.faults import log_unexpected
from derender.telemetry.observation import AnswerFacts
from derender.telemetry.request_ids import harmless_or_none
from derender.telemetry.tally import Tally

from .generation import RelayedGeneration
from .tasks import run_all
from .upstream.errors import log_faults

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from anyio import CancelScope

    from derender.protocol.derender import ClientRequest as DerenderedRequest
    from derender.streaming.generation import Generation
    from derender.telemetry.tally import Outcome

    from .prompts import Prompt
    from .requests import ClientRequest
    from .responses import Emit
    from .settings import Upstream
    from .upstream.client import UpstreamClient

    PreparePrompts = Callable[[], Awaitable[Sequence[Prompt]]]

__all__ = ["StreamPlan", "StreamedAnswer"]

GRACE_SECONDS: Final = 1.0
"""How long to wait for usage and the end of the stream after all choices have finished."""
_DONE: Final = b"[DONE]"

ChunkT = TypeVar("ChunkT", ChatCompletionChunk, TextCompletionChunk)


@dataclass(frozen=True)
class StreamPlan(Generic[ChunkT]):
    """How to stream the answer to a client's request.

    Attributes:
        upstreams: Calls the generate server.
        upstream: The generate server.
        prepare: Prepares the prompts.
        generation: Derenders the chunks, for a prompt that is not known yet.
        client: The client's request.
        created: Unix time in seconds.
        observed: Whether to count what parsers find.
    """

    upstreams: UpstreamClient
    upstream: Upstream
    prepare: PreparePrompts
    generation: Generation[DerenderedRequest, ChunkT]
    client: ClientRequest
    created: int
    observed: bool = False


class StreamedAnswer(Generic[ChunkT]):
    """The events of a streamed answer."""

    def __init__(self, plan: StreamPlan[ChunkT]) -> None:
        """Call no upstream yet."""
        self._plan: StreamPlan[ChunkT] = plan
        self._generations: list[RelayedGeneration[ChunkT]] = []
        self._outcomes: Counter[Outcome] = Counter()

    async def produce(self, emit: Emit) -> None:
        """Produce all events: those of all prompts as they come, the usage if asked for, and `[DONE]`.

        Args:
            emit: Sends events. Returns once those before them have been sent.

        Raises:
            DerenderError: No more events follow.
        """
        prompts = await self._plan.prepare()
        self._generations = self._start(prompts)
        await run_all(
            partial(self._relay, prompt, generation, emit)
            for prompt, generation in zip(prompts, self._generations, strict=True)
        )
        if self._plan.client.stream_options.include_usage:
            await emit(encode_event(self._generations[0].usage_chunk(self._usage())))
        await emit(DONE)

    def cut(self) -> list[bytes]:
        """Return the events that release held-back text after `produce` failed."""
        events: list[bytes] = []
        try:
            for generation in self._generations:
                events += map(encode_event, generation.cut())
        except Exception as error:
            log_unexpected(error)  # the client learns of the first fault
        return events

    def facts(self) -> AnswerFacts:
        """Return what is known of the answer so far."""
        plan, generations = self._plan.generation, self._generations
        parsers = None if plan.parser is None else plan.model.parsers
        choices = [choice for each in generations for choice in each.state.choices.values()]
        return AnswerFacts(
            completion_id=harmless_or_none(generations[0].state.request_id) if generations else None,
            model=plan.name,
            streamed=True,
            parsers=() if parsers is None else parsers.names,
            tally=Tally(
                prompt_tokens=sum(each.prompt_tokens for each in generations),
                completion_tokens=sum(each.completion_tokens for each in generations),
                choices=sum(choice.finished for choice in choices),
                candidates=sum(each.candidates for each in generations),
                outcomes=dict(self._outcomes),
            ),
        )

    def _start(self, prompts: Sequence[Prompt]) -> list[RelayedGeneration[ChunkT]]:
        plan = self._plan
        generations: list[RelayedGeneration[ChunkT]] = []
        first_choice = 0
        for prompt in prompts:
            generation = RelayedGeneration(
                replace(plan.generation, n=prompt.choices, prompt_tokens=len(prompt.token_ids)),
                prompt.token_ids,
                request_id=prompts[0].request_id,
                created=plan.created,
                first_choice=first_choice,
                continuous_usage=plan.client.continuous_usage,
                secrets=plan.upstream.secrets,
            )
            generations.append(generation)
            first_choice += prompt.choices
        return generations

    async def _relay(self, prompt: Prompt, generation: RelayedGeneration[ChunkT], emit: Emit) -> None:
        upstream = self._plan.upstream
        with log_faults(upstream.name):
            with move_on_after(math.inf) as grace:
                async with aclosing(self._plan.upstreams.stream(upstream, prompt.body)) as events:
                    await self._follow(generation, events, emit, grace)
            if not generation.ended:
                raise UpstreamLost("the generate server ended its stream before all choices had finished")
        await self._emit(generation, generation.stop(), emit)

    async def _follow(
        self,
        generation: RelayedGeneration[ChunkT],
        events: AsyncIterator[bytes],
        emit: Emit,
        grace: CancelScope,
    ) -> None:
        """Relay events until the stream ends, or all choices have ended and nothing more matters."""
        try:
            async for data in events:
                if data == _DONE:
                    if generation.ended:
                        continue  # read the body to its end, so that the connection can be reused
                    return
                chunk = generation.receive(data)
                if chunk is not None:
                    await self._emit(generation, [chunk], emit)
                if generation.finished:
                    grace.deadline = current_time() + GRACE_SECONDS
                elif generation.ended:
                    return  # the client sees nothing of what would follow the stop strings
        except DerenderError:
            # Once all choices have ended, the answer is complete.
            if not generation.ended:
                raise

    async def _emit(self, generation: RelayedGeneration[ChunkT], chunks: Sequence[ChunkT], emit: Emit) -> None:
        parsers = self._plan.generation.model.parsers
        if self._plan.observed and parsers is not None:
            first, choices = generation.first_choice, generation.state.choices
            for chunk in chunks:
                self._outcomes.update(find_outcomes(parsers.markers, chunk, choices, first_choice=first))
        if chunks:
            await emit(b"".join(map(encode_event, chunks)))

    def _usage(self) -> Usage:
        first, *others = (generation.usage() for generation in self._generations)
        if not others:
            return first
        prompt_tokens = sum((each.prompt_tokens for each in others), first.prompt_tokens)
        completion_tokens = sum((each.completion_tokens for each in others), first.completion_tokens)
        return Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            total_tokens=prompt_tokens + completion_tokens,
        )
