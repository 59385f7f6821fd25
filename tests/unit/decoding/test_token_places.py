"""Where tokens begin, and how many do so before a place."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.decoding.pieces import read_pieces
from derender.decoding.state import DetokenizerState
from derender.decoding.token_places import TokenPlaces
from tests.support.small_tokenizers import metaspace_tokenizer, unruled_byte_tokenizer
from tests.support.vocabularies import BYTE_LEVEL, B, S, library, sentence_piece, vocabulary

if TYPE_CHECKING:
    from derender.decoding.token_places import TokenRun
    from derender.vocabulary import Vocabulary

VOCABULARIES: Final = {
    "bytes": (
        vocabulary(BYTE_LEVEL, eos_token_id=int(B.EOS), stop_token_ids=(int(B.EOS),), special_token_ids=()),
        int(B.THINK),
        [*(int(each) for each in B if each not in (B.SIZE, B.THINK)), 0x20, 0x80, 0xC3, 0xA9, 0xE2, 0xFF],
    ),
    "stripping": (
        sentence_piece(strip=True),
        int(S.THINK),
        [*range(int(S.HELLO), int(S.THINK)), int(S.UNNAMED), *(S.BYTE + byte for byte in (0x20, 0xC3, 0xA9))],
    ),
    "words": (
        library(metaspace_tokenizer(), special_token_ids=(1,)),
        0,
        [*range(2, metaspace_tokenizer().get_vocab_size())],
    ),
    "parts": (
        library(unruled_byte_tokenizer(), special_token_ids=(1,)),
        0,
        [*range(2, unruled_byte_tokenizer().get_vocab_size())],
    ),
}


def places_of(vocabulary: Vocabulary, marker: int, token_ids: list[int]) -> list[int]:
    """Return where each token begins: at the length of the text of those before."""
    places, length, state = [], 0, DetokenizerState()
    for token_id in token_ids:
        places.append(length)
        pieces, state = read_pieces(vocabulary, {marker: "m"}, state, [token_id])
        length += sum(len(piece) if isinstance(piece, str) else 1 for piece in pieces)
        if token_id == marker:
            # What it completes is before it.
            places[-1] = length - 1
    return places


@pytest.mark.parametrize("name", VOCABULARIES)
@given(data=st.data())
def test_tokens_are_counted_between_any_places(name: str, data: st.DataObject) -> None:
    vocabulary, marker, ids = VOCABULARIES[name]
    token_ids = data.draw(st.lists(st.sampled_from([*ids, marker]), max_size=24))
    expected = places_of(vocabulary, marker, token_ids)
    read = data.draw(st.integers(0, len(token_ids)))
    runs: list[TokenRun] = []
    earlier, state = read_pieces(vocabulary, {marker: "m"}, DetokenizerState(), token_ids[:read])
    begin = sum(len(piece) if isinstance(piece, str) else 1 for piece in earlier)
    _, state = read_pieces(vocabulary, {marker: "m"}, state, token_ids[read:], runs=runs)
    places = TokenPlaces(vocabulary, expected[:read], runs, begin)
    asked = sorted(data.draw(st.lists(st.integers(0, max(expected, default=0) + 2), max_size=6)))
    last = 0
    for first, second in pairwise(asked):
        counted = places.count(first, second)
        assert counted == sum(first <= place < second for place in expected if place >= last)
        last = second
    end = max(last, data.draw(st.integers(0, max(expected, default=0) + 2)))
    assert places.after(end) == [place - end for place in expected if place >= end]


def test_no_token_is_counted_twice() -> None:
    runs: list[TokenRun] = []
    read_pieces(VOCABULARIES["bytes"][0], {}, DetokenizerState(), [*b"abcdef"], runs=runs)
    places = TokenPlaces(VOCABULARIES["bytes"][0], [], runs, 0)
    assert [places.count(0, 4), places.count(2, 5), places.count(0, 9)] == [4, 1, 1]
