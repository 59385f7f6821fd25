"""Pieces of an output for a parser: text, and the ids of marker tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .detokenizer import detokenize
from .token_places import TokenRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from derender.vocabulary import Vocabulary

    from .state import DetokenizerState

__all__ = ["Piece", "cut_pieces", "join_texts", "piece_text", "read_pieces", "split_pieces"]

Piece = str | int
"""Text, or the id of a marker token."""


def read_pieces(
    vocabulary: Vocabulary,
    markers: Mapping[int, str],
    state: DetokenizerState,
    token_ids: Sequence[int],
    *,
    skip_special_tokens: bool = True,
    runs: list[TokenRun] | None = None,
) -> tuple[list[Piece], DetokenizerState]:
    """Decode the next ids of an output into pieces.

    Args:
        vocabulary: The model's vocabulary.
        markers: Ids of markers → their texts in the text that is parsed.
        state: The state after the ids before.
        token_ids: The ids.
        skip_special_tokens: Whether to leave out special tokens that are not markers.
        runs: Gets the runs of tokens that the pieces come from.

    Returns:
        The pieces, and the state after them.
    """
    if skip_special_tokens and not vocabulary.special.isdisjoint(token_ids):
        token_ids = [each for each in token_ids if each in markers or each not in vocabulary.special]
    pieces: list[Piece] = []
    begin = 0
    for place in [place for place, token_id in enumerate(token_ids) if token_id in markers]:
        token_id, before = token_ids[place], state
        # Decoded with the marker, which ends whatever the tokens before it have begun.
        text, state = detokenize(vocabulary, state, token_ids[begin : place + 1], skip_special_tokens=False)
        text = text.removesuffix(vocabulary.pieces[token_id].decode())
        pieces += (text, token_id)
        if runs is not None:
            runs.append(_run(vocabulary, token_ids[begin:place], text, before))
            runs.append(TokenRun((token_id,), len(markers[token_id]), before, is_whole=True))
        begin = place + 1
    before, token_ids = state, token_ids[begin:] if begin else token_ids
    text, state = detokenize(vocabulary, before, token_ids, skip_special_tokens=False)
    pieces.append(text)
    if runs is not None and token_ids:
        runs.append(_run(vocabulary, token_ids, text, before, held=state.pending))
    return pieces, state


def _run(
    vocabulary: Vocabulary,
    token_ids: Sequence[int],
    text: str,
    before: DetokenizerState,
    held: bytes = b"",
) -> TokenRun:
    # A token may have no text. Of those that the `tokenizers` library decodes, only decoding tells.
    has_text = vocabulary.tokenizer is None and bool(token_ids and vocabulary.pieces[token_ids[-1]])
    return TokenRun(token_ids, len(text), before, is_whole=has_text and bool(text) and not held)


def piece_text(vocabulary: Vocabulary, pieces: Sequence[Piece]) -> str:
    """Join pieces into one text, with the markers as the model writes them."""
    return "".join([piece if isinstance(piece, str) else vocabulary.pieces[piece].decode() for piece in pieces])


def join_texts(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Join neighbouring texts, so that pieces do not depend on how they came."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, str) and isinstance(last, str):
            joined[-1] = last + piece
        elif piece != "":
            joined.append(piece)
    return tuple(joined)


def cut_pieces(vocabulary: Vocabulary, pieces: Sequence[Piece], length: int) -> list[Piece]:
    """Return the first `length` characters of pieces. A marker that is cut becomes text."""
    kept: list[Piece] = []
    for piece in pieces:
        text = piece_text(vocabulary, [piece])
        if len(text) >= length:
            return [*kept, piece if len(text) == length else text[:length]]
        kept.append(piece)
        length -= len(text)
    return kept


def split_pieces(
    vocabulary: Vocabulary, pieces: Sequence[Piece], length: int
) -> tuple[list[Piece], list[Piece]]:
    """Split pieces after `length` characters. A marker is not cut: it goes to the second part."""
    for place, piece in enumerate(pieces):
        text = piece_text(vocabulary, [piece])
        if len(text) > length:
            first = [text[:length]] if isinstance(piece, str) and length else []
            rest = piece[length:] if isinstance(piece, str) else piece
            return [*pieces[:place], *first], [rest, *pieces[place + 1 :]]
        length -= len(text)
    return list(pieces), []
