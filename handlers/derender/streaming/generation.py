"""Generate chunks → text, up to where a generation is stopped; what chat and completions share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from .. import detokenizer
from ..choices import reader
from ..columns import first_columns, id_columns, read_columns
from ..errors import BadRequest
from ..limits import check_chunk, check_count, check_length
from ..parsing import start as start_parsing
from ..parsing.pieces import cut_pieces, piece_text, split_pieces
from ..protocol.openai import Usage
from ..stopping import cut_stop_string, drop_stop_token, may_be_stop_token, stop_string_begun
from .state import ChoiceState, GenerationState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..choices import Read
    from ..columns import Columns
    from ..limits import Limits
    from ..model import ServedModel
    from ..parsing import Parser
    from ..parsing.pieces import Piece
    from ..protocol.base import WireModel
    from ..protocol.derender import ClientRequest
    from ..protocol.generate import ChunkChoice, ChunkUsage, GenerateChunk
    from ..stopping import StopReason

__all__ = [
    "AnyGeneration",
    "CheckedChunk",
    "Generation",
    "Said",
    "begin",
    "check",
    "check_order",
    "check_stop_strings",
    "said",
    "shown_columns",
]

MAX_STOP_STRING: Final = 256
"""Characters of the longest stop string in a stream: so much text may have to be held."""


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


def check_stop_strings(path: str, client: ClientRequest) -> None:
    """Refuse stop strings that are too long to be waited for.

    Raises:
        BadRequest: Says how long they may be.
    """
    if max(map(len, client.stop), default=0) > MAX_STOP_STRING:
        raise BadRequest(
            f"a stop string is longer than {MAX_STOP_STRING} characters, which a stream can't wait for",
            param=f"{path}.stop",
        )


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


class Said(NamedTuple):
    """What a chunk adds to a choice."""

    pieces: Sequence[Piece]
    """Text, and the markers in it where a parser looks for them."""
    shown: int
    """How many of the chunk's ids are up to where a stop string ended the text."""
    finish_reason: str | None
    stop_reason: StopReason
    ended: bool
    """Whether the text ends with it."""


def said(generation: AnyGeneration, state: ChoiceState, choice: ChunkChoice) -> tuple[Said, ChoiceState]:
    """Decode what a chunk adds to a choice.

    A token that stops the generation if it is the last is held until more comes; so is text that may become a
    stop string. Where one is complete the text ends, whatever is generated after it.

    Args:
        generation: How it is derendered.
        state: Where the choice is.
        choice: The chunk's choice.
    """
    vocabulary, client = generation.model.vocabulary, generation.client
    uncut = generation.parser is not None and generation.parser.grammar.uncut
    token_ids = choice.token_ids or []
    state = replace(state, received=state.received + len(token_ids))
    final = choice.finish_reason is not None
    if state.stopped is not None and not uncut:
        nothing = Said((), 0, "stop", state.stopped, ended=False)
        return nothing if final else nothing._replace(finish_reason=None, stop_reason=None), replace(
            state, finished=final
        )

    before = [] if state.held_token is None else [state.held_token]
    visible: Sequence[int] = [*before, *token_ids]
    stop_reason, held_token, kept = choice.stop_reason, None, visible
    if final:
        kept, stop_reason = drop_stop_token(
            visible, choice.finish_reason, choice.stop_reason, client, vocabulary.manifest
        )
        if uncut and len(kept) < len(visible) and visible[-1] not in vocabulary.special:
            # As it was generated: only a control token that ended it is no text.
            kept = visible
    elif visible and may_be_stop_token(visible[-1], client, vocabulary.manifest):
        kept, held_token = visible[:-1], visible[-1]

    strings = client.stop
    if isinstance(choice.stop_reason, str) and choice.stop_reason not in strings:
        strings = [*strings, choice.stop_reason]
    if uncut:
        pieces, decoding = generation.read(state.decoding, kept)
        if strings and state.stopped is None:
            _, _, state = _up_to_stop_string(generation, state, kept, strings)
        if final:
            pieces = [*pieces, detokenizer.held_text(decoding)]
            if choice.finish_reason == "stop" and choice.stop_reason is None:
                stop_reason = state.stopped or stop_reason
        state = replace(state, decoding=decoding, held_token=held_token, finished=final)
        return Said(pieces, len(token_ids), choice.finish_reason, stop_reason, ended=final), state

    if strings:
        pieces, read, state = _up_to_stop_string(generation, state, kept, strings)
    else:
        pieces, decoding = generation.read(state.decoding, kept)
        state = replace(state, decoding=decoding)
    state = replace(state, held_token=held_token, finished=final)
    if state.stopped is not None:
        shown = max(read - len(before), 0)
        return Said(pieces, shown, "stop" if final else None, state.stopped, ended=True), state
    if final:
        pieces, state = [*pieces, *state.held], replace(state, held=())
    return Said(pieces, len(token_ids), choice.finish_reason, stop_reason, ended=final), state


def _up_to_stop_string(
    generation: AnyGeneration, state: ChoiceState, token_ids: Sequence[int], strings: Sequence[str]
) -> tuple[list[Piece], int, ChoiceState]:
    """Decode id by id, so that where a stop string is complete does not depend on the chunks.

    Returns:
        The pieces to show; how many ids were read; the state, with what is held and the string that was found.
    """
    vocabulary, client = generation.model.vocabulary, generation.client
    decoding, exempt, tokens, found = state.decoding, state.exempt, state.tokens, state.stopped
    held: list[Piece] = list(state.held)
    shown: list[Piece] = []
    read = 0
    for token_id in token_ids:
        more, decoding = generation.read(decoding, (token_id,))
        read += 1
        held += more
        text = piece_text(vocabulary, held)
        if tokens < client.min_tokens:
            tokens, exempt = tokens + 1, len(text)
        cut, found = cut_stop_string(text, exempt, strings, include=client.include_stop_str_in_output)
        if found is not None:
            shown += cut_pieces(vocabulary, held, len(cut))
            held = []
            break
        first, held = split_pieces(vocabulary, held, len(text) - stop_string_begun(text, strings))
        exempt = max(exempt - len(piece_text(vocabulary, first)), 0)
        shown += first
    state = replace(state, decoding=decoding, held=tuple(held), exempt=exempt, tokens=tokens, stopped=found)
    return shown, read, state


def shown_columns(checked: CheckedChunk, choice: ChunkChoice, said: Said) -> Columns:
    """The log probabilities of what is shown; where there are none, its ids, which others are read after."""
    columns = checked.columns
    if columns is None:
        return id_columns((choice.token_ids or [])[: said.shown])
    return columns if said.shown >= len(columns.ends) else first_columns(columns, said.shown)
