"""Byte-level vocabularies: text comes with the token that ends a character."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.decoding.detokenizer import decode_text
from tests.support.decoding_oracle import byte_level_text, split
from tests.support.vocabularies import BYTE_LEVEL, B

from .texts import B_SPECIAL, bytes_ids, cuts, deltas, text_of

if TYPE_CHECKING:
    from derender.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("token_ids", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([B.HELLO, B.WORLD, B.BANG], ["Hello", " world", "!"], id="words"),
        pytest.param([0xE2, 0x88, 0x9E], ["", "", "∞"], id="3 bytes in 3 tokens"),
        pytest.param([0xC3, 0xA9], ["", "é"], id="2 bytes in 2 tokens"),
        pytest.param([0xF0, 0x9F, 0x98, 0x80], ["", "", "", "😀"], id="4 bytes in 4 tokens"),
        pytest.param([B.FIRST_2_OF_GRIN, B.LAST_2_OF_GRIN], ["", "😀"], id="4 bytes in 2 tokens"),
        pytest.param([B.SPACE_AND_2_OF_INFINITY, 0x9E], ["", " ∞"], id="the space waits with the beginning"),
        pytest.param([B.SPACE_AND_2_OF_INFINITY, B.LAST_OF_INFINITY_AND_BANG], ["", " ∞!"], id="end and more"),
        pytest.param([B.HELLO, 0xE2, 0x88], ["Hello", "", ""], id="cut inside a character"),
        pytest.param([0xE2, B.HELLO], ["", "\ufffdHello"], id="a beginning that nothing ends"),
        pytest.param([0xE2, 0x88, B.HELLO], ["", "", "\ufffdHello"], id="two bytes of three are one U+FFFD"),
        pytest.param([0x80, 0x80, B.BANG], ["", "", "\ufffd\ufffd!"], id="ends that nothing began"),
        pytest.param([0xFF, B.BANG], ["", "\ufffd!"], id="a byte that is never UTF-8"),
        pytest.param([0xE2, 0xE2, 0x88, 0x9E], ["", "", "", "\ufffd∞"], id="begun twice"),
        pytest.param([B.REPLACEMENT, B.BANG], ["\ufffd", "!"], id="a U+FFFD that the model wrote"),
        pytest.param([0xEF, 0xBF, 0xBD], ["", "", "\ufffd"], id="a U+FFFD written in bytes"),
        pytest.param([B.UNNAMED, B.HELLO, B.UNNAMED], ["", "Hello", ""], id="padding ids have no text"),
        pytest.param([0xE2, B.UNNAMED, 0x88, 0x9E], ["", "", "", "∞"], id="padding id inside a character"),
        pytest.param([0xED, 0xA0, 0x80, B.BANG], ["", "", "", "\ufffd\ufffd\ufffd!"], id="a surrogate"),
        pytest.param([0x00, 0x0A, 0x7F], ["\x00", "\n", "\x7f"], id="control characters"),
    ],
)
def test_byte_level_text_comes_when_a_character_ends(
    bytes_vocabulary: Vocabulary, token_ids: list[int], expected: list[str]
) -> None:
    assert deltas(bytes_vocabulary, [[token_id] for token_id in token_ids]) == expected
    assert text_of(bytes_vocabulary, token_ids) == "".join(expected)


@pytest.mark.parametrize(
    ("token_ids", "skipped", "kept"),
    [
        ([B.HELLO, B.EOS], "Hello", "Hello<|end|>"),
        ([B.PAD, B.HELLO, B.OTHER_EOS, B.BANG], "Hello!", "<|pad|>Hello<|stop|>!"),
        ([B.THINK, B.HELLO], "<think>Hello", "<think>Hello"),
        ([B.EOS], "", "<|end|>"),
        ([0xE2, B.PAD, 0x88, 0x9E], "∞", "\ufffd<|pad|>"),
        ([0xE2, 0x88, B.EOS], "", "\ufffd<|end|>"),
    ],
)
def test_special_tokens_are_skipped_or_kept(
    bytes_vocabulary: Vocabulary, token_ids: list[int], skipped: str, kept: str
) -> None:
    assert text_of(bytes_vocabulary, token_ids) == skipped
    assert text_of(bytes_vocabulary, token_ids, skip=False) == kept


@pytest.mark.parametrize(
    ("prompt", "pieces", "expected"),
    [
        pytest.param([B.HELLO], [[B.WORLD]], [" world"], id="clean end"),
        pytest.param([B.HELLO, 0xE2, 0x88], [[0x9E], [B.BANG]], ["∞", "!"], id="the output ends the character"),
        pytest.param([0xE2], [[0x88], [0x9E]], ["", "∞"], id="in pieces"),
        pytest.param([B.FIRST_2_OF_GRIN], [[B.LAST_2_OF_GRIN]], ["😀"], id="4 bytes"),
        pytest.param([0xF0], [[0x9F], [0x98], [], [0x80]], ["", "", "", "😀"], id="4 bytes one by one"),
        pytest.param([B.SPACE_AND_2_OF_INFINITY], [[0x9E]], ["∞"], id="the prompt's space stays the prompt's"),
        pytest.param([B.SPACE_AND_2_OF_INFINITY], [[B.LAST_OF_INFINITY_AND_BANG]], ["∞!"], id="end and more"),
        pytest.param([0xE2, 0x88], [[B.HELLO]], ["Hello"], id="the output does not end it"),
        pytest.param([0xE2], [[0x88], [B.BANG]], ["", "\ufffd!"], id="the output goes on and does not end it"),
        pytest.param([0xE2, 0x88], [[0xC3, 0xA9]], ["é"], id="the output begins another"),
        pytest.param([0xE2, 0x88], [[]], [""], id="no output"),
        pytest.param([0xE2, 0x88, B.PAD], [[0x9E]], ["∞"], id="a skipped token after the beginning"),
        pytest.param([0xE2, 0x88], [[B.PAD], [0x9E]], ["", "∞"], id="a skipped token before the end"),
        pytest.param([0x80, 0x80], [[B.BANG]], ["!"], id="the prompt ends in no UTF-8"),
        pytest.param([*[0x80] * 20, 0xE2, 0x88], [[0x9E]], ["∞"], id="much of no UTF-8 before"),
        pytest.param([B.UNNAMED] * 3, [[B.HELLO]], ["Hello"], id="padding ids"),
    ],
)
def test_byte_level_continues_the_prompt(
    bytes_vocabulary: Vocabulary, prompt: list[int], pieces: list[list[int]], expected: list[str]
) -> None:
    assert deltas(bytes_vocabulary, pieces, prompt=prompt) == expected
    whole = [token_id for piece in pieces for token_id in piece]
    assert text_of(bytes_vocabulary, whole, prompt=prompt) == "".join(expected)
    assert deltas(bytes_vocabulary, pieces, prompt=[B.HELLO] * 20 + prompt) == expected


@given(token_ids=bytes_ids, skip=st.booleans())
def test_text_ends_with_the_last_token_that_ends_a_character(
    bytes_vocabulary: Vocabulary, token_ids: list[int], skip: bool
) -> None:
    visible = [token_id for token_id in token_ids if not (skip and token_id in B_SPECIAL)]
    expected = byte_level_text([BYTE_LEVEL[token_id] for token_id in visible])
    assert text_of(bytes_vocabulary, token_ids, skip=skip) == expected


@given(token_ids=bytes_ids, cuts=cuts, prompt=st.none() | bytes_ids, skip=st.booleans())
def test_any_split_of_byte_level_ids_gives_the_same_text(
    bytes_vocabulary: Vocabulary, token_ids: list[int], cuts: list[int], prompt: list[int] | None, skip: bool
) -> None:
    whole = text_of(bytes_vocabulary, token_ids, prompt=prompt, skip=skip)
    assert "".join(deltas(bytes_vocabulary, split(token_ids, cuts), prompt=prompt, skip=skip)) == whole


@given(token_ids=bytes_ids)
def test_a_text_of_its_own_is_all_bytes(bytes_vocabulary: Vocabulary, token_ids: list[int]) -> None:
    data = b"".join(BYTE_LEVEL[token_id] for token_id in token_ids)
    assert decode_text(bytes_vocabulary, token_ids) == data.decode(errors="replace")
