"""A streamed generation: generate chunks are decoded and written as the chunks of a client's stream."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar

from msgspec.structs import replace

from derender.answers.choices import output_decoder
from derender.answers.message import PLAIN_TEXT
from derender.answers.usage import write_usage
from derender.logprobs.entries import Entries

from .state import ChoiceState, GenerationState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.answers.choices import Prompt
    from derender.answers.message import MessageDelta, MessageParser
    from derender.decoding.output import Decoded, OutputDecoder
    from derender.models.model import ServedModel
    from derender.parsing import Parser
    from derender.protocol.base import WireModel
    from derender.protocol.client import ClientRequest
    from derender.protocol.generate import ChunkChoice, GenerateChunk, GenerateUsage
    from derender.protocol.openai.chat import ChatChunkChoice
    from derender.protocol.openai.completions import CompletionChunkChoice
    from derender.protocol.openai.usage import Usage

    from .checks import CheckedChunk

    ClientChoice = ChatChunkChoice | CompletionChunkChoice

__all__ = ["ChoiceDelta", "Generation", "Step", "is_empty"]

ClientT = TypeVar("ClientT", bound="ClientRequest", covariant=True)
ChunkT = TypeVar("ChunkT", bound="WireModel", covariant=True)


_BESIDE_CHOICES: Final = ("prompt_token_ids", "metrics", "kv_transfer_params", "ec_transfer_params")
"""Fields of a chunk that a client may need, besides those of its choices."""


class ChoiceDelta(NamedTuple):
    """What a generate chunk adds to a choice, decoded."""

    generated: ChunkChoice
    decoded: Decoded
    message: MessageDelta
    """What it adds to the message. Without a parser all text is content."""
    token_ids: list[int]
    """The ids that are shown."""
    prompt_token_ids: list[int] | None
    """The prompt's ids, if the chunk has them."""
    logprobs: Entries | None
    """The logprobs of the ids that are shown, if the chunk has logprobs."""
    entries: Entries
    """The same; without logprobs, the ids alone."""
    context: Sequence[int]
    """The sampled tokens before these that end inside a character."""
    is_first: bool
    """Whether the choice begins here."""


class Step(NamedTuple, Generic[ChunkT]):
    """A generate chunk, derendered."""

    chunk: ChunkT
    """The client's chunk."""
    state: GenerationState
    """The state after it."""
    is_empty: bool
    """Whether the chunk has nothing for a client, usage aside."""


def is_empty(choice: ClientChoice) -> bool:
    """Return whether a choice of a client's chunk adds nothing, logprobs aside."""
    fields = {**vars(choice), **vars(getattr(choice, "delta", choice))}
    return not any(value for name, value in fields.items() if name not in ("index", "delta", "logprobs"))


@dataclass(frozen=True, kw_only=True)
class Generation(ABC, Generic[ClientT, ChunkT]):
    """Derenders the chunks of one generation. Each client API has a subclass that writes its chunks.

    Attributes:
        model: The model.
        name: What the client calls the model.
        client: The client's request.
        messages: Parses the outputs.
        n: Number of choices.
        prompt_tokens: Length of the prompt, for `usage`; if None, the generate server's count is used.
        echoed: Text that each choice begins with.
    """

    endpoint: ClassVar[str]
    """The client API. A state is valid for this API only."""

    model: ServedModel
    name: str
    client: ClientT
    messages: MessageParser = PLAIN_TEXT
    n: int = 1
    prompt_tokens: int | None = None
    echoed: str = ""

    @property
    def parser(self) -> Parser | None:
        """The parser of the outputs, if they are parsed."""
        return self.messages.parser

    def for_prompt(self, prompt: Prompt, place: int | None = None) -> Self:  # noqa: ARG002 - for subclasses
        """Return what derenders the generation of a prompt, in which a choice begins.

        Args:
            prompt: The prompt, as far as it is known.
            place: Which of several prompts it is, if known.

        Raises:
            BadRequest: Choices begin with the prompt, which is not known.
        """
        return dataclasses.replace(self, prompt_tokens=prompt.tokens)

    def begin(self, request_id: str, prompt_token_ids: Sequence[int] | None, created: int) -> GenerationState:
        """Return the state before the first chunk.

        Args:
            request_id: The generation's id.
            prompt_token_ids: The prompt or a suffix of it, if known.
            created: Unix time in seconds.
        """
        start = self.messages.start(prompt_token_ids)
        parsing = None if start is None else start.state
        beginning = ChoiceState(self.decoder.start(prompt_token_ids), parsing)
        seed = self.messages.seed(request_id, prompt_token_ids)
        return GenerationState(request_id, created, beginning, seed)

    def derender(self, state: GenerationState, checked: CheckedChunk) -> Step[ChunkT]:
        """Derender a generate chunk.

        Args:
            state: The state after the chunks before it.
            checked: The generate chunk.
        """
        chunk, choices, adds_logprobs = checked.chunk, [], False
        for choice in chunk.choices:
            delta, next_state = self._decode_choice(state, checked, choice)
            written, next_state = self._write_choice(delta, next_state)
            choices.append(written)
            adds_logprobs |= bool(written.logprobs is not None and delta.entries.ends)
            state = state.with_choice(choice.index, next_state)
        if chunk.usage is not None and state.has_finished(self.n):
            state = replace(state, counted=True)
        fields: dict[str, Any] = {
            "id": state.request_id,
            "created": state.created,
            "model": self.name,
            "choices": choices,
            "usage": self.usage(chunk.usage, state),
            "metrics": chunk.metrics,
            "kv_transfer_params": chunk.kv_transfer_params,
            "ec_transfer_params": chunk.ec_transfer_params,
        }
        answer = self._write_chunk(chunk, fields)
        adds = not choices or adds_logprobs or not all(map(is_empty, choices))
        return Step(answer, state, not (adds or any(getattr(answer, name, None) for name in _BESIDE_CHOICES)))

    def is_complete(self, state: GenerationState) -> bool:
        """Return whether all choices have finished and usage, if the client wants it, has come."""
        return state.has_finished(self.n) and (state.counted or not self.client.wants_usage)

    def usage(self, counted: GenerateUsage | None, state: GenerationState) -> Usage | None:
        """Return the tokens in and out, if the generate server counted them.

        Args:
            counted: The generate server's usage.
            state: The state after the chunks so far, for the tokens of the reasoning.
        """
        if counted is None:
            return None
        prompt = counted.prompt_tokens if self.prompt_tokens is None else self.prompt_tokens
        return write_usage(
            prompt,
            counted.completion_tokens or 0,
            counted,
            state.reasoning_tokens if self.messages.counts_reasoning else None,
        )

    def _decode_choice(
        self, state: GenerationState, checked: CheckedChunk, choice: ChunkChoice
    ) -> tuple[ChoiceDelta, ChoiceState]:
        earlier = state.choices.get(choice.index)
        before = earlier or state.beginning
        token_ids = choice.token_ids or []
        decoded, output = self.decoder.decode_delta(
            before.output, token_ids, choice.finish_reason, choice.stop_reason
        )
        message, parsing = self.messages.parse(
            before.parsing,
            decoded.pieces,
            decoded.runs,
            ended=decoded.ended,
            finish_reason=decoded.finish_reason,
            seed=state.seed,
            choice=choice.index,
        )
        entries = checked.entries or Entries.of_ids(token_ids)
        if decoded.visible_tokens is not None:
            token_ids, entries = token_ids[: decoded.visible_tokens], entries.first(decoded.visible_tokens)
        delta = ChoiceDelta(
            generated=choice,
            decoded=decoded,
            message=message,
            token_ids=token_ids,
            prompt_token_ids=checked.chunk.prompt_token_ids,
            logprobs=checked.entries and entries,
            entries=entries,
            context=before.logprob_context,
            is_first=earlier is None,
        )
        next_state = replace(
            before,
            output=output,
            parsing=parsing,
            calls=before.calls + message.complete_calls,
            reasoning_tokens=before.reasoning_tokens + message.reasoning_tokens,
            logprob_context=self.model.logprobs.strings.extend_context(before.logprob_context, entries),
            received=before.received + len(choice.token_ids or ()),
            finished=choice.finish_reason is not None,
        )
        return delta, next_state

    @cached_property
    def decoder(self) -> OutputDecoder:
        """Decodes the outputs."""
        return output_decoder(self.model.vocabulary, self.client, self.parser, stops_reported=False)

    @abstractmethod
    def _write_choice(self, delta: ChoiceDelta, next_state: ChoiceState) -> tuple[ClientChoice, ChoiceState]:
        """Write what a generate chunk adds to a choice.

        Args:
            delta: What it adds.
            next_state: The choice's state after decoding it.

        Returns:
            The choice of the client's chunk, and the choice's state after writing it.
        """

    @abstractmethod
    def _write_chunk(self, chunk: GenerateChunk, fields: dict[str, Any]) -> ChunkT:
        """Write the client's chunk from the fields that all APIs share."""
