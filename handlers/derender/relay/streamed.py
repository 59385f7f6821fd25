"""Streamed answers: the generations of all prompts, derendered event by event."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from derender.answers.usage import add_usages
from derender.http.sse import DONE, encode_event
from derender.http.workers import INLINE
from derender.protocol.openai.chat import ChatCompletionChunk
from derender.protocol.openai.completions import TextCompletionChunk
from derender.telemetry.faults import log_unexpected
from derender.telemetry.observation import AnswerFacts
from derender.telemetry.request_ids import harmless_or_none
from derender.telemetry.tally import Tally

from .generate_streams import read_stream
from .generation import RelayedGeneration
from .tasks import run_all
from .upstream.errors import log_faults

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from derender.http.workers import Run
    from derender.protocol.client import ClientRequest as DerenderedRequest
    from derender.protocol.generate import GenerateChunk
    from derender.protocol.openai.usage import Usage
    from derender.streaming.generation import Generation

    from .generate_requests import PreparedRequest
    from .requests import ClientRequest
    from .responses import Emit
    from .servers import Upstream
    from .upstream.client import UpstreamClient

__all__ = ["StreamedAnswer"]

ChunkT = TypeVar("ChunkT", ChatCompletionChunk, TextCompletionChunk)


@dataclass
class StreamedAnswer(Generic[ChunkT]):
    """The events of a streamed answer.

    Attributes:
        upstream_client: Calls the generate server.
        upstream: The generate server.
        prepare: Prepares the requests to the generate server, one for each prompt.
        generation: Derenders the chunks. Each request completes it with its prompt.
        client: The client's request.
        created: Unix time in seconds.
        observed: Whether to count what parsers make of choices.
        run: Runs the work on what comes.
    """

    upstream_client: UpstreamClient
    upstream: Upstream
    prepare: Callable[[], Awaitable[Sequence[PreparedRequest]]]
    generation: Generation[DerenderedRequest, ChunkT]
    client: ClientRequest
    created: int
    observed: bool = False
    run: Run = INLINE
    _generations: list[RelayedGeneration[ChunkT]] = field(default_factory=list, init=False)

    async def produce(self, emit: Emit) -> None:
        """Produce all events: those of all prompts as they come, the usage if asked for, and `[DONE]`.

        Args:
            emit: Sends events. Returns once those before them have been sent.

        Raises:
            DerenderError: No more events follow.
        """
        requests = await self.prepare()
        self._generations = self._start(requests)
        await run_all(
            partial(self._relay, request, generation, emit)
            for request, generation in zip(requests, self._generations, strict=True)
        )
        if self.client.stream_options.include_usage:
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
        generation, relayed = self.generation, self._generations
        parsers = None if generation.parser is None else generation.model.parsers
        return AnswerFacts(
            completion_id=harmless_or_none(relayed[0].state.request_id) if relayed else None,
            model=generation.name,
            streamed=True,
            parsers=() if parsers is None else parsers.names,
            tally=sum((each.tally for each in relayed), Tally()),
        )

    def _start(self, requests: Sequence[PreparedRequest]) -> list[RelayedGeneration[ChunkT]]:
        generations: list[RelayedGeneration[ChunkT]] = []
        first_choice = 0
        for place, request in enumerate(requests):
            generation = RelayedGeneration(
                replace(self.generation.for_prompt(request.prompt, place), n=request.n),
                request,
                request_id=requests[0].request_id,
                created=self.created,
                first_choice=first_choice,
                continuous_usage=self.client.continuous_usage,
                observed=self.observed,
                secrets=self.upstream.secrets,
            )
            generations.append(generation)
            first_choice += request.n
        return generations

    async def _relay(self, request: PreparedRequest, generation: RelayedGeneration[ChunkT], emit: Emit) -> None:
        def write(chunk: GenerateChunk) -> bytes | None:
            answer = generation.receive(chunk)
            return None if answer is None else encode_event(answer)

        async def receive(chunk: GenerateChunk, size: int) -> None:
            event = await self.run(size, partial(write, chunk))
            if event is not None:
                await emit(event)

        with log_faults(self.upstream.name):
            events = self.upstream_client.stream(self.upstream, request.body, request.model)
            await read_stream(events, generation.reader, receive, self.run)

    def _usage(self) -> Usage:
        return add_usages([generation.usage() for generation in self._generations])
