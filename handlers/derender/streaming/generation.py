"""How a generation is derendered, and what its chunks may hold; what chat and completions share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from derender.answers.choices import reader
from derender.decoding import detokenizer
from derender.errors import BadRequest
from derender.logprobs.entries import read_columns
from derender.parsing import start as start_parsing
from derender.protocol.limits import check_chunk, check_count, check_length
from derender.protocol.openai import Usage

from .state import ChoiceState, GenerationState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.answers.choices import Read
    from derender.logprobs.entries import Columns
    from derender.models.model import ServedModel
    from derender.parsing import Parser
    from derender.protocol.base import WireModel
    from derender.protocol.derender import ClientRequest
    from derender.protocol.generate import ChunkChoice, ChunkUsage, GenerateChunk
    from derender.protocol.limits import Limits

__all__ = [
    "AnyGeneration",
    "CheckedChunk",
    "Generation",
    "begin",
    "check",
    "check_order",
]

ClientT = TypeVar("ClientT", bound="ClientRequest", covariant=True)
ChunkT = TypeVar("ChunkT", bound="WireModel", covariant=True)


@dataclass(frozen=True)
class Generation(ABC, Generic[ClientT, ChunkT]):
    """How the chunks of one generation are derendered.

    Attributes:
        model: The model served.
        name: What the client calls it.
        client: What the client asked.
        parser: Parses the outputs, where a chat's are parsed.
        prompt_tokens: Length of the prompt, for usage; what the generate server counted where there is none.
    """

    endpoint: ClassVar[str]
    """What its states are for: they mean nothing to another endpoint."""

    model: ServedModel
    name: str
    client: ClientT
    parser: Parser | None = None
    prompt_tokens: int | None = None

    def derender(self, state: GenerationState, checked: CheckedChunk) -> tuple[ChunkT, GenerationState]:
        """What a generate chunk adds to the answer.

        Args:
            state: Where the generation is.
            checked: The generate chunk.
        """
        chunk, choices = checked.chunk, []
        for choice in chunk.choices:
            added, after = self._choice(state, checked, choice)
            choices.append(added)
            state = replace(state, choices={**state.choices, choice.index: after})
        if chunk.usage is not None and state.finished(self.count):
            state = replace(state, counted=True)
        fields = {
            "id": state.request_id,
            "created": state.created,
            "model": self.name,
            "choices": choices,
            "usage": self.usage(chunk.usage),
            "metrics": chunk.metrics,
            "kv_transfer_params": chunk.kv_transfer_params,
            "ec_transfer_params": chunk.ec_transfer_params,
        }
        return self._chunk(chunk, fields), state

    @abstractmethod
    def _choice(
        self, state: GenerationState, checked: CheckedChunk, choice: ChunkChoice
    ) -> tuple[WireModel, ChoiceState]:
        """What a chunk adds to a choice, and where the choice is then."""

    @abstractmethod
    def _chunk(self, chunk: GenerateChunk, fields: dict[str, Any]) -> ChunkT:
        """The chunk of the answer that has these fields."""

    @property
    def count(self) -> int:
        """How many choices there are at least."""
        return self.client.n if isinstance(self.client.n, int) else 1

    def finished(self, state: GenerationState) -> bool:
        """Whether nothing follows: all choices have ended, and usage came if the client asked for it."""
        options = self.client.stream_options
        wanted = isinstance(options, dict) and options.get("include_usage") is True
        return state.finished(self.count) and (state.counted or not wanted)

    def usage(self, counted: ChunkUsage | None) -> Usage | None:
        """Tokens in and out, where the generate server counted."""
        if counted is None:
            return None
        prompt = counted.prompt_tokens if self.prompt_tokens is None else self.prompt_tokens
        generated = counted.completion_tokens or 0
        return Usage(
            prompt_tokens=prompt,
            total_tokens=prompt + generated,
            completion_tokens=generated,
            prompt_tokens_details=counted.prompt_tokens_details,
            completion_tokens_details=counted.completion_tokens_details,
        )

    @cached_property
    def read(self) -> Read:
        """Decodes ids."""
        return reader(self.model.vocabulary, self.client, self.parser.grammar if self.parser else None)


AnyGeneration = Generation["ClientRequest", "WireModel"]


class CheckedChunk(NamedTuple):
    """A generate chunk that can be derendered."""

    chunk: GenerateChunk
    columns: Columns | None
    """Its log probabilities."""


def check(generation: AnyGeneration, path: str, chunk: GenerateChunk) -> CheckedChunk:
    """Read what a chunk holds, and decode nothing.

    Args:
        generation: How it is derendered.
        path: Where it is in the request.
        chunk: The generate chunk.

    Raises:
        BadRequest: It is out of bounds, of several choices, or of another model.
    """
    limits = generation.model.limits
    check_chunk(path, chunk, limits)
    columns = read_columns(path, chunk.choices, generation.client.candidates, limits.vocabulary_size)
    return CheckedChunk(chunk, columns[0] if columns else None)


def check_order(
    state: GenerationState | None, chunks: Sequence[CheckedChunk], paths: Sequence[str], limits: Limits
) -> None:
    """Refuse chunks that can't follow those before: of another generation, or of a choice that has ended.

    Args:
        state: Where the generation is; None at its beginning.
        chunks: The chunks.
        paths: Where they are in the request.
        limits: The bounds.

    Raises:
        BadRequest: Names the chunk.
    """
    request_id = None if state is None else state.request_id
    choices = {} if state is None else state.choices
    ended = {index for index, choice in choices.items() if choice.finished}
    received = {index: choice.received for index, choice in choices.items()}
    for (chunk, _), path in zip(chunks, paths, strict=True):
        if chunk.request_id is not None and chunk.request_id != (request_id := request_id or chunk.request_id):
            raise BadRequest(
                "the chunk is of another generation than those before it: its request_id differs",
                param=f"{path}.request_id",
            )
        for choice in chunk.choices:
            if choice.index in ended:
                raise BadRequest(
                    f"choice {choice.index} has ended: a chunk before this one has its finish_reason",
                    param=f"{path}.choices.0",
                )
            if choice.finish_reason is not None:
                ended.add(choice.index)
            length = received.get(choice.index, 0) + len(choice.token_ids or ())
            received[choice.index] = length
            check_length(f"{path}.choices.0.token_ids", length, limits)
    check_count("choices", len(received), limits)


def begin(
    generation: AnyGeneration, request_id: str, prompt_token_ids: Sequence[int] | None, created: int
) -> GenerationState:
    """The state before a generation.

    Args:
        generation: How it is derendered.
        request_id: Its id.
        prompt_token_ids: The prompt, or a suffix of it, if known.
        created: Unix time in seconds.
    """
    parser, client = generation.parser, generation.client
    decoding = detokenizer.start(
        generation.model.vocabulary, prompt_token_ids, skip_special_tokens=client.skip_special_tokens
    )
    parsing = None if parser is None else start_parsing(parser, prompt_token_ids)
    return GenerationState(request_id, created, ChoiceState(decoding, parsing))
