"""The generations of one client's request: asked for, and derendered while they come or once they are there."""

from __future__ import annotations

import logging
import math
from collections import Counter
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from anyio import current_time, move_on_after

from derender.errors import BadGateway, DerenderError, GatewayTimeout, UpstreamLost
from derender.http.sse import DONE, event
from derender.protocol.generate import GenerateResponse
from derender.protocol.openai import ChatCompletionChunk, TextCompletionChunk
from derender.protocol.reading import read
from derender.telemetry.answer_facts import find_outcomes
from derender.telemetry.faults import log_unexpected
from derender.telemetry.observation import AnswerFacts
from derender.telemetry.request_ids import harmless_or_none
from derender.telemetry.tally import Tally

from .client import Ask, answer_of, events_of
from .concurrency import all_of
from .generations import (
    NOT_FOR_CLIENTS,
    Progress,
    RelayedGeneration,
    advance,
    cut,
    has_ended,
    has_finished,
    start,
    stop,
    usage_chunk,
)
from .requests import read_rendered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    import httpx
    from anyio import CancelScope

    from derender.protocol.derender import ClientRequest as DerenderedRequest
    from derender.streaming.generation import Generation
    from derender.telemetry.tally import Outcome

    from .requests import ClientRequest, GenerateRequest
    from .response import Emit
    from .upstreams import Relay, Upstream

    Prepare = Callable[[], Awaitable[Sequence["Prompt"]]]

__all__ = ["Asking", "Prompt", "StreamPlan", "StreamedAnswer", "generated", "rendered"]

logger = logging.getLogger("derender")

GENERATE: Final = "/inference/v1/generate"
LAST_SECONDS: Final = 1.0
"""How long is waited for what may follow the end of all choices: usage, and the end of the stream."""
_DONE: Final = b"[DONE]"

ChunkT = TypeVar("ChunkT", ChatCompletionChunk, TextCompletionChunk)


class Asking(NamedTuple):
    """Whom a client's request is relayed to, and how."""

    client: httpx.AsyncClient
    relay: Relay
    upstream: Upstream


class Prompt(NamedTuple):
    """One prompt, ready to be sent to a generate server."""

    token_ids: Sequence[int]
    request_id: str
    choices: int
    """How many are generated."""
    body: bytes


async def rendered(asking: Asking, path: str, body: bytes, limit: int) -> list[GenerateRequest]:
    """The generate requests that a client's request is rendered to.

    Args:
        asking: Who is asked.
        path: Where the service renders such requests.
        body: The client's request, as it came.
        limit: Most bytes of the answer.

    Raises:
        DerenderError: There are none.
    """
    service = asking.relay.render
    assert service is not None
    with _logged(service):
        return read_rendered(
            await answer_of(
                asking.client, Ask("the render service", service, path, body, asking.relay.timeout), limit
            )
        )


async def generated(asking: Asking, prompts: Sequence[Prompt], limit: int) -> list[GenerateResponse]:
    """The complete generations of some prompts.

    Args:
        asking: Who is asked.
        prompts: The prompts.
        limit: Most bytes of an answer.

    Raises:
        DerenderError: One can't be generated.
    """
    responses: dict[int, GenerateResponse] = {}

    async def ask(place: int, prompt: Prompt) -> None:
        with _logged(asking.upstream):
            # All comes at once, when it has been generated.
            question = _ask(asking, prompt)._replace(timeout=asking.relay.generation_timeout)
            content = await answer_of(asking.client, question, limit)
            responses[place] = _response(content, prompt)

    await all_of(partial(ask, place, prompt) for place, prompt in enumerate(prompts))
    return [responses[place] for place in range(len(prompts))]


@dataclass(frozen=True)
class StreamPlan(Generic[ChunkT]):
    """How the answer to a client's request is streamed.

    Attributes:
        asking: Who is asked.
        generation: How a generation is derendered, whose prompt is not known yet.
        client: What the client asked.
        created: Unix time in seconds.
        prepare: Makes the prompts.
        observed: Whether anybody asks for facts.
    """

    asking: Asking
    generation: Generation[DerenderedRequest, ChunkT]
    client: ClientRequest
    created: int
    prepare: Prepare
    observed: bool = False


class StreamedAnswer(Generic[ChunkT]):
    """The events of an answer that is streamed."""

    def __init__(self, plan: StreamPlan[ChunkT]) -> None:
        """Ask nobody yet."""
        self._plan: StreamPlan[ChunkT] = plan
        self._generations: list[RelayedGeneration[ChunkT]] = []
        self._progress: list[Progress] = []
        self._unsent: list[list[bytes]] = []
        self._outcomes: Counter[Outcome] = Counter()

    async def produce(self, emit: Emit) -> None:
        """Make all events: of all prompts at once, as they come.

        Args:
            emit: Sends one, when the client has read those before.

        Raises:
            DerenderError: There will be no more.
        """
        prompts = await self._plan.prepare()
        self._generations = self._relayed(prompts)
        self._progress = [start(each) for each in self._generations]
        self._unsent = [[] for _ in prompts]
        await all_of(partial(self._relay, place, prompt, emit) for place, prompt in enumerate(prompts))
        if self._plan.client.stream_options.include_usage:
            await emit(event(usage_chunk(zip(self._generations, self._progress, strict=True))))
        await emit(DONE)

    def left(self) -> list[bytes]:
        """The events of what was derendered and not sent, where there will be no more."""
        left = [content for unsent in self._unsent for content in unsent]
        try:
            for relayed, progress in zip(self._generations, self._progress, strict=True):
                left += map(event, cut(relayed, progress))
        except Exception as error:
            log_unexpected(error)  # the client is told of a fault already
        return left

    def facts(self) -> AnswerFacts:
        """What is known of the answer by now."""
        generation, generations = self._plan.generation, self._generations
        parsers = None if generation.parser is None else generation.model.parsers
        choices = [choice for each in self._progress for choice in each.state.choices.values()]
        return AnswerFacts(
            completion_id=harmless_or_none(generations[0].request_id) if generations else None,
            model=generation.name,
            streamed=True,
            parsers=() if parsers is None else parsers.names,
            tally=Tally(
                prompt_tokens=sum(len(each.token_ids) for each in generations),
                completion_tokens=sum(each.received for each in self._progress),
                choices=sum(choice.finished for choice in choices),
                candidates=sum(each.candidates for each in self._progress),
                outcomes=dict(self._outcomes),
            ),
        )

    def _relayed(self, prompts: Sequence[Prompt]) -> list[RelayedGeneration[ChunkT]]:
        relayed: list[RelayedGeneration[ChunkT]] = []
        first_choice = 0
        for prompt in prompts:
            generation = self._plan.generation
            relayed.append(
                RelayedGeneration(
                    replace(
                        generation,
                        client=generation.client.model_copy(update={"n": prompt.choices}),
                        prompt_tokens=len(prompt.token_ids),
                    ),
                    request_id=prompts[0].request_id,
                    token_ids=prompt.token_ids,
                    created=self._plan.created,
                    first_choice=first_choice,
                    continuous_usage=self._plan.client.continuous_usage,
                    secrets=self._plan.asking.upstream.secrets,
                )
            )
            first_choice += prompt.choices
        return relayed

    async def _relay(self, place: int, prompt: Prompt, emit: Emit) -> None:
        asking = self._plan.asking
        limit = asking.relay.max_event_bytes
        with _logged(asking.upstream):
            with move_on_after(math.inf) as patience:
                async with aclosing(events_of(asking.client, _ask(asking, prompt), limit)) as events:
                    await self._follow(place, events, emit, patience)
            relayed, progress = self._generations[place], self._progress[place]
            if not has_ended(relayed, progress):
                raise UpstreamLost("the generate server ended its answer before its choices had ended")
        chunks, self._progress[place] = stop(relayed, progress)
        await self._emit(place, chunks, emit)

    async def _follow(
        self, place: int, events: AsyncIterator[bytes], emit: Emit, patience: CancelScope
    ) -> None:
        relayed = self._generations[place]
        try:
            async for data in events:
                progress = self._progress[place]
                if has_ended(relayed, progress) and data == _DONE:
                    continue  # to the end of the body: then the connection can be used again
                if data == _DONE:
                    return
                chunk, progress = self._advance(place, data)
                if chunk is not None:
                    await self._emit(place, [chunk], emit)
                if has_finished(relayed, progress):
                    patience.deadline = current_time() + LAST_SECONDS
                elif has_ended(relayed, progress):
                    return  # what else is generated is shown to nobody
        except DerenderError:
            # All is there: what goes wrong after the end is nobody's concern.
            if not has_ended(relayed, self._progress[place]):
                raise

    def _advance(self, place: int, data: bytes) -> tuple[ChunkT | None, Progress]:
        chunk, progress = advance(self._generations[place], self._progress[place], data)
        self._progress[place] = progress
        return chunk, progress

    async def _emit(self, place: int, chunks: Sequence[ChunkT], emit: Emit) -> None:
        parsers = self._plan.generation.model.parsers
        if self._plan.observed and parsers is not None:
            first, choices = self._generations[place].first_choice, self._progress[place].state.choices
            for chunk in chunks:
                self._outcomes.update(find_outcomes(parsers.markers, chunk, choices, first_choice=first))
        # What another generation's fault keeps from being sent is sent in the end.
        unsent = self._unsent[place]
        unsent += map(event, chunks)
        while unsent:
            await emit(unsent[0])
            del unsent[0]


def _ask(asking: Asking, prompt: Prompt) -> Ask:
    return Ask("the generate server", asking.upstream, GENERATE, prompt.body, asking.relay.timeout)


def _response(content: bytes, prompt: Prompt) -> GenerateResponse:
    try:
        response = read(GenerateResponse, content)
    except DerenderError as error:
        raise BadGateway(
            "the generate server's answer is no generate response", quoting=error.message
        ) from None
    if len(response.choices) != prompt.choices:
        raise BadGateway(
            f"the generate server answered with {len(response.choices)} choices, not with {prompt.choices}"
        )
    update: dict[str, object] = {"request_id": prompt.request_id, **NOT_FOR_CLIENTS}
    if response.prompt_token_ids is None:
        update["prompt_token_ids"] = list(prompt.token_ids)
    return response.model_copy(update=update)


@contextmanager
def _logged(upstream: Upstream) -> Iterator[None]:
    """Log what is wrong with an upstream: the operator is to know, too."""
    try:
        yield
    except (BadGateway, GatewayTimeout) as fault:
        logger.warning("upstream %s: %s", upstream.name, fault.unquoted)
        raise
