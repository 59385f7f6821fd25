"""What a generate chunk adds to a choice → text, up to where the generation is stopped.

What may yet turn out to have stopped it is held: the last token, if it is a stop token should nothing follow;
text that may become a stop string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from derender.decoding.detokenizer import held_text
from derender.decoding.stopping import cut_stop_string, drop_stop_token, may_be_stop_token, stop_string_begun
from derender.logprobs.entries import first_columns, id_columns
from derender.parsing.engine.pieces import cut_pieces, piece_text, split_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.decoding.stopping import StopReason
    from derender.logprobs.entries import Columns
    from derender.parsing.engine.pieces import Piece
    from derender.protocol.generate import ChunkChoice

    from .generation import AnyGeneration, CheckedChunk
    from .state import ChoiceState

__all__ = ["DecodedChunk", "decode_chunk", "shown_columns"]


class DecodedChunk(NamedTuple):
    """What a chunk adds to a choice."""

    pieces: Sequence[Piece]
    """Text, and the markers in it where a parser looks for them."""
    shown: int
    """How many of the chunk's ids are shown: those up to where a stop string ended the text."""
    finish_reason: str | None
    stop_reason: StopReason
    ended: bool
    """Whether the text ends with it."""


def decode_chunk(
    generation: AnyGeneration, state: ChoiceState, choice: ChunkChoice
) -> tuple[DecodedChunk, ChoiceState]:
    """Decode what a chunk adds to a choice.

    Args:
        generation: How it is derendered.
        state: Where the choice is.
        choice: The chunk's choice.
    """
    token_ids, finished = choice.token_ids or [], choice.finish_reason is not None
    uncut = generation.parser is not None and generation.parser.grammar.uncut
    if state.stopped is not None and not uncut:
        decoded = DecodedChunk((), 0, None, None, ended=False)
        if finished:
            decoded = decoded._replace(finish_reason="stop", stop_reason=state.stopped)
    else:
        carried = [] if state.held_token is None else [state.held_token]
        visible = [*carried, *token_ids]
        kept, held_token, stop_reason = _without_stop_token(generation, choice, visible, uncut=uncut)
        decode = _as_generated if uncut else _up_to_stop_string
        decoded, state = decode(generation, state, choice, kept, stop_reason)
        # Of those before the chunk's own, nothing is shown in it.
        decoded = decoded._replace(shown=max(decoded.shown - len(carried), 0))
        state = replace(state, held_token=held_token)
    return decoded, replace(state, received=state.received + len(token_ids), finished=finished)


def shown_columns(checked: CheckedChunk, choice: ChunkChoice, decoded: DecodedChunk) -> Columns:
    """The log probabilities of what is shown; where there are none, its ids, which others are read after."""
    columns = checked.columns
    if columns is None:
        return id_columns((choice.token_ids or [])[: decoded.shown])
    return columns if decoded.shown >= len(columns.ends) else first_columns(columns, decoded.shown)


def _without_stop_token(
    generation: AnyGeneration, choice: ChunkChoice, token_ids: Sequence[int], *, uncut: bool
) -> tuple[Sequence[int], int | None, StopReason]:
    """The ids to decode; the last one, if it has to wait; the stop reason."""
    vocabulary, client = generation.model.vocabulary, generation.client
    if choice.finish_reason is None:
        if token_ids and may_be_stop_token(token_ids[-1], client, vocabulary.manifest):
            return token_ids[:-1], token_ids[-1], choice.stop_reason
        return token_ids, None, choice.stop_reason
    kept, stop_reason = drop_stop_token(
        token_ids, choice.finish_reason, choice.stop_reason, client, vocabulary.manifest
    )
    if uncut and len(kept) < len(token_ids) and token_ids[-1] not in vocabulary.special:
        # As it was generated: only a control token that ended it is no text.
        kept = token_ids
    return kept, None, stop_reason


def _as_generated(
    generation: AnyGeneration,
    state: ChoiceState,
    choice: ChunkChoice,
    token_ids: Sequence[int],
    stop_reason: StopReason,
) -> tuple[DecodedChunk, ChoiceState]:
    """Decode ids of an output that is read as it was generated; a stop string is its stop reason only."""
    pieces, decoding = generation.read(state.decoding, token_ids)
    if state.stopped is None:
        _, _, state = _search(generation, state, choice, token_ids)
    ended = choice.finish_reason is not None
    if ended:
        pieces = [*pieces, held_text(decoding)]
    if choice.finish_reason == "stop" and choice.stop_reason is None:
        stop_reason = state.stopped or stop_reason
    decoded = DecodedChunk(pieces, len(token_ids) + 1, choice.finish_reason, stop_reason, ended=ended)
    return decoded, replace(state, decoding=decoding)


def _up_to_stop_string(
    generation: AnyGeneration,
    state: ChoiceState,
    choice: ChunkChoice,
    token_ids: Sequence[int],
    stop_reason: StopReason,
) -> tuple[DecodedChunk, ChoiceState]:
    """Decode ids up to a stop string. Where one is complete the text ends, whatever is generated after it."""
    ended = choice.finish_reason is not None
    pieces, read, state = _search(generation, state, choice, token_ids)
    if state.stopped is not None:
        return DecodedChunk(pieces, read, "stop" if ended else None, state.stopped, ended=True), state
    if ended:
        pieces, state = [*pieces, *state.held], replace(state, held=())
    # With the token that is left out.
    return DecodedChunk(pieces, len(token_ids) + 1, choice.finish_reason, stop_reason, ended=ended), state


def _search(
    generation: AnyGeneration, state: ChoiceState, choice: ChunkChoice, token_ids: Sequence[int]
) -> tuple[list[Piece], int, ChoiceState]:
    """Decode ids and look for stop strings, id by id, so that chunks make no difference to where one ends.

    Returns:
        The pieces to show; how many ids were read; the state, with what is held and the string that was found.
    """
    vocabulary, client = generation.model.vocabulary, generation.client
    strings = client.stop
    if isinstance(choice.stop_reason, str) and choice.stop_reason not in strings:
        strings = [*strings, choice.stop_reason]
    if not strings:
        pieces, decoding = generation.read(state.decoding, token_ids)
        return pieces, len(token_ids), replace(state, decoding=decoding)
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
