"""Pieces of an output: text and markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from derender.decoding.pieces import cut_pieces, piece_text, read_pieces
from derender.decoding.state import DetokenizerState

from ..parsing.support import encode, marked_vocabulary

if TYPE_CHECKING:
    from derender.decoding.pieces import Piece
    from derender.vocabulary import Vocabulary

EOS: Final = 256
CALL, END, OTHER = 257, 258, 259
"""Ids of the vocabulary's markers. The last one is not a marker of the format."""
MARKERS: Final = {CALL: "\ud800", END: "\ud801"}
HALF: Final = list("é".encode()[:1])


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return marked_vocabulary(["<tool_call>", "</tool_call>", "<other>"])


@pytest.mark.parametrize(
    ("token_ids", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([*b"Hi"], ["Hi"], id="text"),
        pytest.param([CALL], [CALL], id="a marker"),
        pytest.param([*b"a", CALL, *b"b", END, *b"c"], ["a", CALL, "b", END, "c"], id="markers in text"),
        pytest.param([CALL, CALL, END], [CALL, CALL, END], id="markers side by side"),
        pytest.param([*b"<tool_call>"], ["<tool_call>"], id="text that looks like a marker"),
        pytest.param([*b"<tool_call>", CALL], ["<tool_call>", CALL], id="it, before a marker"),
        pytest.param([*b"a", OTHER, *b"b"], ["a<other>b"], id="a token that is no marker"),
        pytest.param([*"é".encode(), CALL], ["é", CALL], id="a character of two tokens"),
        pytest.param([*HALF, CALL, *b"b"], ["\ufffd", CALL, "b"], id="half a character before a marker"),
        pytest.param([*b"a", *HALF], ["a"], id="half a character at the end"),
    ],
)
def test_markers_are_split_from_text(
    vocabulary: Vocabulary, token_ids: list[int], expected: list[Piece]
) -> None:
    pieces, _ = read_pieces(vocabulary, MARKERS, DetokenizerState(), token_ids)
    assert [piece for piece in pieces if piece != ""] == expected
    # One id at a time gives the same.
    again: list[Piece] = []
    state = DetokenizerState()
    for token_id in token_ids:
        more, state = read_pieces(vocabulary, MARKERS, state, [token_id])
        again += more
    assert merged(again) == expected


def merged(pieces: list[Piece]) -> list[Piece]:
    """Join neighbouring texts."""
    whole: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and whole and isinstance(whole[-1], str):
            whole[-1] += piece
        elif piece != "":
            whole.append(piece)
    return whole


def test_special_tokens_are_skipped_unless_they_are_markers(vocabulary: Vocabulary) -> None:
    ids = [*b"a", EOS, *b"b", CALL]
    assert merged(read_pieces(vocabulary, MARKERS, DetokenizerState(), ids)[0]) == ["ab", CALL]
    kept, _ = read_pieces(vocabulary, MARKERS, DetokenizerState(), ids, skip_special_tokens=False)
    assert merged(kept) == ["a<eos>b", CALL]
    assert merged(read_pieces(vocabulary, {EOS: "\ud800"}, DetokenizerState(), ids)[0]) == [
        "a",
        EOS,
        "b<tool_call>",
    ]


def test_pieces_join_to_text_with_markers_as_written(vocabulary: Vocabulary) -> None:
    assert piece_text(vocabulary, ["a", CALL, "", END, "b"]) == "a<tool_call></tool_call>b"
    assert piece_text(vocabulary, []) == ""


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, [""]),
        (1, ["a"]),
        (2, ["ab"]),
        (3, ["ab", "<"]),
        (12, ["ab", "<tool_call"]),
        (13, ["ab", CALL]),
        (14, ["ab", CALL, "c"]),
        (99, ["ab", CALL, "cd"]),
    ],
)
def test_a_cut_marker_leaves_text(vocabulary: Vocabulary, length: int, expected: list[Piece]) -> None:
    pieces: list[Piece] = ["ab", CALL, "cd"]
    cut = cut_pieces(vocabulary, pieces, length)
    assert cut == expected
    assert piece_text(vocabulary, cut) == "ab<tool_call>cd"[:length]


def test_text_with_markers_is_encoded(vocabulary: Vocabulary) -> None:
    assert encode(vocabulary, "a<tool_call>é<eos>") == [97, CALL, 0xC3, 0xA9, EOS]
