"""SentencePiece vocabularies with byte fallback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from derender.decoding.detokenizer import decode_text
from tests.support.decoding_oracle import byte_fallback_text, split
from tests.support.vocabularies import SENTENCE_PIECE, S

from .texts import S_SPECIAL, X, cuts, deltas, pieces_ids, text_of

if TYPE_CHECKING:
    from derender.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("token_ids", "expected"),
    [
        pytest.param([S.HELLO, S.WORLD], [" Hello", " world"], id="words"),
        pytest.param([S.GLUED, S.HELLO], ["glued", " Hello"], id="no space to begin with"),
        pytest.param([S.SPACE, S.HELLO], [" ", " Hello"], id="two spaces"),
        pytest.param([X + 0x20, S.BANG], [" ", "!"], id="a space as a byte"),
        pytest.param([X + 0xE4, X + 0xB8, X + 0xAD], ["", "", "中"], id="3 bytes"),
        pytest.param([X + 0xC3, X + 0xA9], ["", "é"], id="2 bytes"),
        pytest.param([X + 0xF0, X + 0x9F, X + 0x98, X + 0x80], ["", "", "", "😀"], id="4 bytes"),
        pytest.param([S.HELLO, X + 0xE4, X + 0xB8], [" Hello", "", ""], id="cut inside a character"),
        pytest.param([X + 0xE4, X + 0xB8, S.BANG], ["", "", "\ufffd\ufffd!"], id="a beginning: U+FFFD a byte"),
        pytest.param([X + 0xFF, X + 0x41, S.BANG], ["", "", "\ufffd\ufffd!"], id="no UTF-8 from a byte on"),
        pytest.param(
            [X + 0xC3, X + 0xA9, X + 0xE4, S.BANG],
            ["", "é", "", "\ufffd!"],
            id="what was sent before the fault stays",
        ),
        pytest.param([X + 0xE4, S.E_ACUTE], ["", "\ufffdé"], id="another character"),
        pytest.param([X + 0xE4, S.UNNAMED, X + 0xB8, X + 0xAD], ["", "", "", "中"], id="padding id inside"),
        pytest.param([X + 0xE4, S.EOS, X + 0xB8, X + 0xAD], ["", "", "", "中"], id="skipped token inside"),
        pytest.param([S.BOS, S.HELLO, S.EOS], ["", " Hello", ""], id="special tokens"),
        pytest.param([S.THINK, S.HELLO], ["<think>", " Hello"], id="a marker that is not special"),
    ],
)
def test_byte_fallback_text_comes_when_a_character_ends(
    spacing_vocabulary: Vocabulary, stripping_vocabulary: Vocabulary, token_ids: list[int], expected: list[str]
) -> None:
    single = [[token_id] for token_id in token_ids]
    text = "".join(expected)
    assert deltas(spacing_vocabulary, single) == expected
    assert text_of(spacing_vocabulary, token_ids) == text
    stripped = text.removeprefix(" ")
    assert "".join(deltas(stripping_vocabulary, single)) == stripped
    assert text_of(stripping_vocabulary, token_ids) == stripped
    # After a prompt nothing is dropped.
    assert deltas(stripping_vocabulary, single, prompt=[S.GLUED]) == expected


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        pytest.param(None, "Hello world", id="no prompt"),
        pytest.param([], "Hello world", id="empty prompt"),
        pytest.param([S.BOS], "Hello world", id="special tokens alone"),
        pytest.param([S.UNNAMED], "Hello world", id="padding ids alone"),
        pytest.param([S.BOS, S.GLUED], " Hello world", id="text"),
        pytest.param([S.GLUED, S.EOS], " Hello world", id="text, then a special token"),
        pytest.param([S.SPACE], " Hello world", id="a space"),
        pytest.param([X + 0xE4], " Hello world", id="a character begun"),
        pytest.param([S.GLUED] + [S.EOS] * 20, " Hello world", id="text far back"),
        pytest.param([S.GLUED] + [S.UNNAMED] * 20, " Hello world", id="text before much padding"),
    ],
)
def test_the_leading_space_is_dropped_only_at_the_start_of_a_text(
    spacing_vocabulary: Vocabulary, stripping_vocabulary: Vocabulary, prompt: list[int] | None, expected: str
) -> None:
    assert text_of(stripping_vocabulary, [S.HELLO, S.WORLD], prompt=prompt) == expected
    assert text_of(spacing_vocabulary, [S.HELLO, S.WORLD], prompt=prompt) == " Hello world"


def test_one_leading_space_is_dropped_and_only_once(stripping_vocabulary: Vocabulary) -> None:
    assert deltas(stripping_vocabulary, [[S.SPACE], [S.HELLO], [S.WORLD]]) == ["", " Hello", " world"]
    assert text_of(stripping_vocabulary, [S.SPACE, S.HELLO, S.WORLD]) == " Hello world"
    assert text_of(stripping_vocabulary, [X + 0x20, S.HELLO]) == " Hello"


def test_special_tokens_that_are_kept_start_the_text(stripping_vocabulary: Vocabulary) -> None:
    assert text_of(stripping_vocabulary, [S.BOS, S.HELLO], skip=False) == "<s> Hello"
    assert text_of(stripping_vocabulary, [S.HELLO], prompt=[S.BOS], skip=False) == " Hello"


@pytest.mark.parametrize(
    ("prompt", "pieces", "expected"),
    [
        pytest.param([S.HELLO, X + 0xE4, X + 0xB8], [[X + 0xAD], [S.BANG]], ["中", "!"], id="ended"),
        pytest.param([X + 0xF0], [[X + 0x9F], [X + 0x98], [X + 0x80]], ["", "", "😀"], id="ended in pieces"),
        pytest.param([X + 0xE4, X + 0xB8], [[S.BANG]], ["!"], id="not ended"),
        pytest.param([X + 0xE4, X + 0xB8], [[X + 0xC3, X + 0xA9]], ["é"], id="another begun"),
        pytest.param([X + 0xE4], [[X + 0xB8], [S.BANG]], ["", "\ufffd!"], id="gone on and not ended"),
        pytest.param([X + 0xE4, X + 0xB8, S.EOS], [[X + 0xAD]], ["中"], id="a skipped token between"),
        pytest.param([X + 0xC3, X + 0xA9], [[S.HELLO]], [" Hello"], id="ended in the prompt"),
    ],
)
def test_byte_fallback_continues_the_prompt(
    stripping_vocabulary: Vocabulary, prompt: list[int], pieces: list[list[int]], expected: list[str]
) -> None:
    assert deltas(stripping_vocabulary, pieces, prompt=prompt) == expected
    whole = [token_id for piece in pieces for token_id in piece]
    assert text_of(stripping_vocabulary, whole, prompt=prompt) == "".join(expected)


@given(token_ids=pieces_ids, skip=st.booleans())
def test_each_run_of_byte_tokens_is_decoded_by_itself(
    spacing_vocabulary: Vocabulary, stripping_vocabulary: Vocabulary, token_ids: list[int], skip: bool
) -> None:
    visible = [token_id for token_id in token_ids if not (skip and token_id in S_SPECIAL)]
    expected = byte_fallback_text([(SENTENCE_PIECE[n], X <= n < X + 256) for n in visible])
    assert text_of(spacing_vocabulary, token_ids, skip=skip) == expected
    assert text_of(stripping_vocabulary, token_ids, skip=skip) == expected.removeprefix(" ")


@given(token_ids=pieces_ids, cuts=cuts, prompt=st.none() | pieces_ids, skip=st.booleans())
@example(token_ids=[S.SPACE, S.HELLO], cuts=[1], prompt=None, skip=True)
def test_any_split_of_byte_fallback_ids_gives_the_same_text(
    spacing_vocabulary: Vocabulary,
    stripping_vocabulary: Vocabulary,
    token_ids: list[int],
    cuts: list[int],
    prompt: list[int] | None,
    skip: bool,
) -> None:
    for vocabulary in (spacing_vocabulary, stripping_vocabulary):
        whole = text_of(vocabulary, token_ids, prompt=prompt, skip=skip)
        assert "".join(deltas(vocabulary, split(token_ids, cuts), prompt=prompt, skip=skip)) == whole


@given(token_ids=pieces_ids)
def test_a_text_of_its_own_is_all_runs(spacing_vocabulary: Vocabulary, token_ids: list[int]) -> None:
    # A piece ends the last run, and with it what is held.
    pieces = [(SENTENCE_PIECE[n], X <= n < X + 256) for n in [*token_ids, int(S.BANG)]]
    assert decode_text(spacing_vocabulary, token_ids) == byte_fallback_text(pieces).removesuffix("!")
