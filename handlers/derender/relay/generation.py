"""A relayed generation: events of a generate server in, chunks of the client's stream out. Does no I/O."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import orjson

from derender.errors import BadGateway, DerenderError, UpstreamFailed
from derender.protocol.generate import ChunkChoice, GenerateChunk, GenerateUsage
from derender.protocol.openai.chat import ChatCompletionChunk
from derender.protocol.openai.completions import TextCompletionChunk
from derender.protocol.reading import read
from derender.streaming.checks import CheckedChunk, check_order, read_chunk
from derender.telemetry.answer_facts import count_candidates, find_outcomes
from derender.telemetry.tally import Tally

from .upstream.errors import refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.protocol.client import ClientRequest
    from derender.protocol.openai.usage import Usage
    from derender.streaming.generation import Generation
    from derender.telemetry.tally import Outcome

__all__ = ["NOT_FOR_CLIENTS", "RelayedGeneration"]

_PATH: Final = "chunk"
NOT_FOR_CLIENTS: Final[dict[str, None]] = {"kv_transfer_params": None, "ec_transfer_params": None}
"""Fields by which servers find each other's caches."""

ChunkT = TypeVar("ChunkT", ChatCompletionChunk, TextCompletionChunk)


class RelayedGeneration(Generic[ChunkT]):
    """The generation of one prompt.

    Attributes:
        state: The state of the derendered stream.
    """

    def __init__(
        self,
        generation: Generation[ClientRequest, ChunkT],
        token_ids: Sequence[int],
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
            token_ids: The prompt.
            request_id: The id of the answer.
            created: Unix time in seconds.
            first_choice: The number of its first choice in the answer.
            continuous_usage: Whether every chunk contains usage.
            observed: Whether to count what the parser makes of choices.
            secrets: Strings that no message to the client may contain.
        """
        self.state = generation.begin(request_id, token_ids, created)
        self._generation: Generation[ClientRequest, ChunkT] = generation
        self._token_ids = token_ids
        self._first_choice = first_choice
        self._continuous_usage = continuous_usage
        self._secrets = secrets
        self._upstream_id: str | None = None  # servers may choose another id than the requested one
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

    @property
    def finished(self) -> bool:
        """Whether the generate server has finished all choices."""
        return self.state.has_finished(self._generation.n)

    @property
    def ended(self) -> bool:
        """Whether the generate server or a stop string has ended all choices."""
        return self.state.has_ended(self._generation.n)

    def receive(self, data: bytes) -> ChunkT | None:
        """Derender the next event.

        Args:
            data: The data of the event.

        Returns:
            The chunk to send, if there is one.

        Raises:
            BadGateway: The event is not a generate chunk, or can't follow those before.
            UpstreamRefusal: The event is an error that the client may see.
        """
        chunk, checked = self._check(data)
        self._usage = chunk.usage or self._usage
        self._upstream_id = self._upstream_id or chunk.request_id
        self._candidates += count_candidates(chunk.choices)
        if not chunk.choices:
            self._last = chunk
            return None
        (choice,) = chunk.choices
        before = self.state.choices.get(choice.index)
        if before is None and chunk.prompt_token_ids is None and self._generation.client.return_token_ids:
            prompt = {"prompt_token_ids": list(self._token_ids)}
            checked = checked._replace(chunk=chunk.model_copy(update=prompt))
        answer = self._derender(checked)
        if self._continuous_usage:
            counted = GenerateUsage(completion_tokens=self._received)
            return self._number_choices(answer, usage=answer.usage or self._generation.usage(counted))
        # After a stop string, only the finish reason matters to the client.
        if before is not None and before.ended and choice.finish_reason is None:
            return None
        return self._number_choices(answer)

    def stop(self) -> list[ChunkT]:
        """Finish each choice that a stop string has ended and the generate server has not finished."""
        return [
            self._number_choices(self._derender(_final_chunk(index, "stop")))
            for index, choice in self.state.choices.items()
            if choice.ended and not choice.finished
        ]

    def cut(self) -> list[ChunkT]:
        """Return what ends the choices when the generation fails: held-back text, without a finish reason.

        A choice that a stop string has ended gets its finish reason. The state doesn't change.
        """
        answers: list[ChunkT] = []
        for index, choice in self.state.choices.items():
            if choice.finished:
                continue
            stopped = choice.ended
            answer, _ = self._generation.derender(
                self.state, _final_chunk(index, "stop" if stopped else "error")
            )
            if not stopped:
                (released,) = answer.choices
                unfinished = released.model_copy(update={"finish_reason": None, "stop_reason": None})
                answer = answer.model_copy(update={"choices": [unfinished]})
            answers.append(self._number_choices(answer))
        return answers

    def usage(self) -> Usage:
        """Count tokens as the generate server did, or as received if it counted fewer or none."""
        counted = self._usage
        if counted is None or (counted.completion_tokens or 0) < self._received:
            counted = GenerateUsage(completion_tokens=self._received)
        usage = self._generation.usage(counted)
        assert usage is not None
        return usage

    def usage_chunk(self, usage: Usage) -> ChunkT:
        """Return the last chunk of the stream, which contains the usage of the whole answer."""
        return self._derender(CheckedChunk(self._last, None)).model_copy(update={"usage": usage})

    @property
    def _received(self) -> int:
        return sum(choice.received for choice in self.state.choices.values())

    def _derender(self, checked: CheckedChunk) -> ChunkT:
        answer, self.state = self._generation.derender(self.state, checked)
        if self._markers is not None:
            self._outcomes.update(find_outcomes(self._markers, answer, self.state.choices))
        return answer

    def _number_choices(self, answer: ChunkT, *, usage: Usage | None = None) -> ChunkT:
        """Number choices as the answer does, and set the usage."""
        update: dict[str, object] = {"usage": usage}
        if self._first_choice:
            update["choices"] = [
                choice.model_copy(update={"index": self._first_choice + choice.index})
                for choice in answer.choices
            ]
        return answer.model_copy(update=update)

    def _check(self, data: bytes) -> tuple[GenerateChunk, CheckedChunk]:
        generation = self._generation
        try:
            chunk = read(GenerateChunk, data).model_copy(update=NOT_FOR_CLIENTS)
            limits = generation.model.limits
            checked = read_chunk(_PATH, chunk, generation.client.candidates, limits)
            # The answer has its own id, whatever id the generate server chose.
            unnamed = chunk.model_copy(update={"request_id": None})
            check_order(self.state, [CheckedChunk(unnamed, None)], [_PATH], limits)
        except DerenderError as error:
            raise self._find_error(data) or BadGateway(
                "the generate server sent an event that can't be derendered", quoting=error.message
            ) from None
        if chunk.request_id is not None and self._upstream_id not in (None, chunk.request_id):
            raise BadGateway("the generate server sent an event of another generation: its request_id differs")
        for choice in chunk.choices:
            if not 0 <= choice.index < generation.n:
                raise BadGateway(
                    "the generate server sent a choice that was not requested",
                    quoting=f"choice {choice.index} of {generation.n}",
                )
        return chunk, checked

    def _find_error(self, data: bytes) -> DerenderError | None:
        """Return the error that an event reports, if it reports one."""
        try:
            content = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(content, dict) or "error" not in content:
            return None
        error = content["error"]
        code = error.get("code") if isinstance(error, dict) else None
        return refusal(code, content, secrets=self._secrets) or UpstreamFailed(
            "the generate server reported an error"
        )


def _final_chunk(index: int, reason: str) -> CheckedChunk:
    choice = ChunkChoice(index=index, finish_reason=reason)
    return CheckedChunk(GenerateChunk(choices=[choice]), None)
