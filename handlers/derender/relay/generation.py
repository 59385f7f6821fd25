"""A relayed generation: generate chunks in, chunks of the client's stream out. Does no I/O."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Generic, TypeVar

from derender.errors import DerenderError
from derender.logprobs.entries import read_entries
from derender.protocol.generate import ChunkChoice, GenerateChunk, GenerateUsage
from derender.protocol.openai.chat import ChatCompletionChunk
from derender.protocol.openai.completions import TextCompletionChunk
from derender.streaming.checks import CheckedChunk
from derender.streaming.generation import is_empty
from derender.telemetry.answer_facts import count_candidates, find_outcomes
from derender.telemetry.tally import Tally

from .chunks import ChunkReader, unusable_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.protocol.client import ClientRequest
    from derender.protocol.openai.usage import Usage
    from derender.streaming.generation import Generation, Step
    from derender.telemetry.tally import Outcome

    from .generate_requests import PreparedRequest

__all__ = ["RelayedGeneration"]

ChunkT = TypeVar("ChunkT", ChatCompletionChunk, TextCompletionChunk)


class RelayedGeneration(Generic[ChunkT]):
    """The generation of one prompt.

    Attributes:
        reader: Reads the chunks.
        state: The state of the derendered stream.
    """

    def __init__(
        self,
        generation: Generation[ClientRequest, ChunkT],
        request: PreparedRequest,
        *,
        request_id: str,
        created: int,
        first_choice: int = 0,
        continuous_usage: bool = False,
        observed: bool = False,
        secrets: Sequence[str] = (),
    ) -> None:
        """Receive nothing yet.

        Args:
            generation: Derenders the chunks.
            request: The request to the generate server.
            request_id: The id of the answer.
            created: Unix time in seconds.
            first_choice: The number of its first choice in the answer.
            continuous_usage: Whether every chunk contains usage.
            observed: Whether to count what the parser makes of choices.
            secrets: Strings that no message to the client may contain.
        """
        self.reader = ChunkReader(request, generation.decoder, generation.model.limits, secrets=secrets)
        self.state = generation.begin(request_id, request.token_ids, created)
        self._generation: Generation[ClientRequest, ChunkT] = generation
        self._token_ids = request.token_ids
        self._first_choice = first_choice
        self._continuous_usage = continuous_usage
        self._usage: GenerateUsage | None = None
        self._last = GenerateChunk.model_construct(choices=[])  # the last chunk without choices
        self._candidates = 0
        parsers = generation.model.parsers
        self._markers = parsers.markers if observed and parsers is not None else None
        self._outcomes: Counter[Outcome] = Counter()

    @property
    def tally(self) -> Tally:
        """Counts of what was received so far."""
        return Tally(
            prompt_tokens=len(self._token_ids),
            completion_tokens=self._received,
            choices=sum(choice.finished for choice in self.state.choices.values()),
            candidates=self._candidates,
            outcomes=dict(self._outcomes),
        )

    def receive(self, chunk: GenerateChunk) -> ChunkT | None:
        """Derender the next chunk.

        Args:
            chunk: The chunk, as the reader returns it.

        Returns:
            The chunk to send, if it has something for the client.

        Raises:
            BadGateway: The chunk can't be derendered.
        """
        self._usage = chunk.usage or self._usage
        self._candidates += count_candidates(chunk.choices)
        if not chunk.choices:
            self._last = chunk
            return None
        (choice,) = chunk.choices
        generation = self._generation
        try:
            (entries,) = read_entries(
                "chunk", chunk.choices, generation.client.candidates, generation.model.limits.vocabulary_size
            )
        except DerenderError as error:
            raise unusable_event(error) from None
        is_first = choice.index not in self.state.choices
        if is_first and chunk.prompt_token_ids is None and generation.client.return_token_ids:
            chunk = chunk.model_copy(update={"prompt_token_ids": list(self._token_ids)})
        answer, _, adds_nothing = self._derender(CheckedChunk(chunk, entries))
        if adds_nothing:
            return None
        if self._continuous_usage:
            counted = GenerateUsage(completion_tokens=self._received)
            return self._number_choices(answer, usage=answer.usage or generation.usage(counted, self.state))
        return self._number_choices(answer)

    def cut(self) -> list[ChunkT]:
        """Return what ends the choices when the generation fails: held-back text, without a finish reason.

        The state doesn't change.
        """
        answers: list[ChunkT] = []
        for index, choice in self.state.choices.items():
            if choice.finished:
                continue
            final = GenerateChunk(choices=[ChunkChoice(index=index, finish_reason="error")])
            answer = self._generation.derender(self.state, CheckedChunk(final, None)).chunk
            (released,) = answer.choices
            unfinished = released.model_copy(update={"finish_reason": None, "stop_reason": None})
            if not is_empty(unfinished):
                answers.append(self._number_choices(answer.model_copy(update={"choices": [unfinished]})))
        return answers

    def usage(self) -> Usage:
        """Count tokens as the generate server did, or as received if it counted fewer or none.

        It counts too many if it generated more after a stop string.
        """
        counted, received = self._usage or GenerateUsage(), self._received
        if self.reader.stopped or (counted.completion_tokens or 0) < received:
            counted = GenerateUsage(
                completion_tokens=received, prompt_tokens_details=counted.prompt_tokens_details
            )
        usage = self._generation.usage(counted, self.state)
        assert usage is not None
        return usage

    def usage_chunk(self, usage: Usage) -> ChunkT:
        """Return the last chunk of the stream, which contains the usage of the whole answer."""
        return self._derender(CheckedChunk(self._last, None)).chunk.model_copy(update={"usage": usage})

    @property
    def _received(self) -> int:
        return sum(choice.received for choice in self.state.choices.values())

    def _derender(self, checked: CheckedChunk) -> Step[ChunkT]:
        step = self._generation.derender(self.state, checked)
        self.state = step.state
        if self._markers is not None:
            self._outcomes.update(find_outcomes(self._markers, step.chunk, self.state.choices))
        return step

    def _number_choices(self, answer: ChunkT, *, usage: Usage | None = None) -> ChunkT:
        """Number choices as the answer does, and set the usage."""
        update: dict[str, object] = {"usage": usage}
        if self._first_choice:
            update["choices"] = [
                choice.model_copy(update={"index": self._first_choice + choice.index})
                for choice in answer.choices
            ]
        return answer.model_copy(update=update)
