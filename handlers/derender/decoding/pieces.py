"""Token ids → the pieces that a parser reads: text, and the ids of markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .detokenizer import detokenize

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from derender.vocabulary import Vocabulary

    from .detokenizer import DetokenizerState

__all__ = ["Piece", "cut_pieces", "piece_text", "read_pieces", "split_pieces"]

Piece = str | int
"""Text, or the id of a marker."""


def read_pieces(
    vocabulary: Vocabulary,
    markers: Container[int],
    state: DetokenizerState,
    token_ids: Sequence[int],
    *,
    skip_special_tokens: bool = True,
) -> tuple[list[Piece], DetokenizerState]:
    """Read ids, as the next of an output.

    Args:
        vocabulary: The model's.
        markers: Ids that are markers.
        state: Where decoding what came before has led.
        token_ids: The ids.
        skip_special_tokens: Leave out special tokens that are no markers.
    """
    if skip_special_tokens and not vocabulary.special.isdisjoint(token_ids):
        token_ids = [each for each in token_ids if each in markers or each not in vocabulary.special]
    pieces: list[Piece] = []
    begin = 0
    for place in [place for place, token_id in enumerate(token_ids) if token_id in markers]:
        token_id = token_ids[place]
        # With the marker: it settles what the tokens before it are.
        text, state = detokenize(vocabulary, state, token_ids[begin : place + 1], skip_special_tokens=False)
        pieces += (text.removesuffix(vocabulary.pieces[token_id].decode()), token_id)
        begin = place + 1
    text, state = detokenize(vocabulary, state, token_ids[begin:], skip_special_tokens=False)
    pieces.append(text)
    return pieces, state


def piece_text(vocabulary: Vocabulary, pieces: Sequence[Piece]) -> str:
    """Pieces as one text, markers as they are written."""
    return "".join([piece if isinstance(piece, str) else vocabulary.pieces[piece].decode() for piece in pieces])


def cut_pieces(vocabulary: Vocabulary, pieces: Sequence[Piece], length: int) -> list[Piece]:
    """The first characters of pieces. Of a marker that is cut, what is left is text."""
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
    """The first characters of pieces, and the others. A marker that is cut is whole, among the others."""
    for place, piece in enumerate(pieces):
        text = piece_text(vocabulary, [piece])
        if len(text) > length:
            first = [text[:length]] if isinstance(piece, str) and length else []
            rest = piece[length:] if isinstance(piece, str) else piece
            return [*pieces[:place], *first], [rest, *pieces[place + 1 :]]
        length -= len(text)
    return list(pieces), []
