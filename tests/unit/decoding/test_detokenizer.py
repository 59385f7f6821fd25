"""Text as the `tokenizers` library decodes it, prompts, and the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.decoding.detokenizer import detokenize, start
from derender.decoding.state import DetokenizerState
from tests.support.decoding_oracle import REPLACEMENT, split
from tests.support.small_tokenizers import id_of, word_piece_tokenizer
from tests.support.vocabularies import B, S, library

from .texts import bytes_ids, cuts, deltas, text_of, words

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from derender.vocabulary import Vocabulary

    from ..conftest import Compiled


@pytest.mark.parametrize("name", ["byte-level", "spacing", "stripping", "metaspace"])
@given(text=words, cuts=cuts, skip=st.booleans())
def test_encoded_texts_decode_as_the_library_decodes_them(
    compiled: Compiled, name: str, text: str, cuts: list[int], skip: bool
) -> None:
    vocabulary, tokenizer = compiled(name)
    token_ids = tokenizer.encode(text).ids
    expected = tokenizer.decode(token_ids, skip_special_tokens=skip)
    assert text_of(vocabulary, token_ids, skip=skip) == expected
    assert "".join(deltas(vocabulary, split(token_ids, cuts), skip=skip)) == expected


@pytest.mark.parametrize("name", ["byte-level", "spacing", "stripping", "metaspace"])
@given(prompt=words, text=words, keep=st.integers(1, 40))
def test_the_text_is_what_the_ids_add_to_the_prompt(
    compiled: Compiled, name: str, prompt: str, text: str, keep: int
) -> None:
    vocabulary, tokenizer = compiled(name)
    bang = id_of(tokenizer, "!")
    before = [*tokenizer.encode(prompt).ids, bang]
    token_ids = tokenizer.encode(text).ids
    decoded = tokenizer.decode([*before, *token_ids], skip_special_tokens=True)
    shown = tokenizer.decode(before, skip_special_tokens=True)
    assert decoded.startswith(shown)
    assert text_of(vocabulary, token_ids, prompt=before) == decoded.removeprefix(shown)
    # A suffix of the prompt does as well.
    assert text_of(vocabulary, token_ids, prompt=before[-keep:]) == decoded.removeprefix(shown)


@given(text=words, cuts=cuts)
def test_qwen3_texts_decode_as_the_library_decodes_them(
    bundled: Vocabulary, qwen3: Tokenizer, text: str, cuts: list[int]
) -> None:
    token_ids = qwen3.encode(text).ids
    expected = qwen3.decode(token_ids, skip_special_tokens=False)
    assert text_of(bundled, token_ids, skip=False) == expected
    assert "".join(deltas(bundled, split(token_ids, cuts), skip=False)) == expected


@given(token_ids=st.lists(st.integers(0, 151935), max_size=30), cuts=cuts, skip=st.booleans())
def test_qwen3_ids_decode_as_the_library_decodes_them(
    bundled: Vocabulary, qwen3: Tokenizer, token_ids: list[int], cuts: list[int], skip: bool
) -> None:
    ended = [*token_ids, 0]
    expected = qwen3.decode(ended, skip_special_tokens=skip)
    assert text_of(bundled, ended, skip=skip) == expected
    assert "".join(deltas(bundled, split(ended, cuts), skip=skip)) == expected


@given(prompt=st.lists(st.integers(0, 151668), max_size=12), text=words)
def test_qwen3_text_is_what_the_ids_add_to_the_prompt(
    bundled: Vocabulary, qwen3: Tokenizer, prompt: list[int], text: str
) -> None:
    before = [*prompt, 0]
    token_ids = qwen3.encode(text).ids
    shown = qwen3.decode(before, skip_special_tokens=False)
    expected = qwen3.decode([*before, *token_ids], skip_special_tokens=False).removeprefix(shown)
    assert text_of(bundled, token_ids, prompt=before, skip=False) == expected


def test_no_ids_change_nothing(bytes_vocabulary: Vocabulary) -> None:
    _, state = detokenize(bytes_vocabulary, DetokenizerState(), [0xE2])
    assert detokenize(bytes_vocabulary, state, []) == ("", state)


@given(token_ids=bytes_ids)
def test_a_state_can_be_used_again(bytes_vocabulary: Vocabulary, token_ids: list[int]) -> None:
    """All choices of a response start from the same state."""
    state = start(bytes_vocabulary, [B.HELLO, 0xE2])
    first = detokenize(bytes_vocabulary, state, token_ids)
    assert detokenize(bytes_vocabulary, state, token_ids) == first
    assert REPLACEMENT not in first[0] or token_ids


def test_a_replacement_character_of_the_model_is_shown() -> None:
    tokenizer = word_piece_tokenizer(extra=("\ufffd",))
    ids = [id_of(tokenizer, "hello"), id_of(tokenizer, "\ufffd")]
    text, state = detokenize(library(tokenizer, special_token_ids=(0, 1)), DetokenizerState(), ids)
    assert (text, state.pending_ids) == ("hello \ufffd", 0)


RUNS: Final = st.lists(
    st.tuples(st.sampled_from([0x80, 0xBF, 0xC3, 0xE2, 0xF0, 0xFF, 0x9F, 0x98, 0x41]), st.integers(1, 400)),
    max_size=5,
)
"""Runs of bytes, most of which end no character."""


@pytest.mark.parametrize("name", ["bytes_vocabulary", "stripping_vocabulary"])
@given(runs=RUNS, cuts=cuts, prompt=st.lists(st.sampled_from([0xE2, 0x88, 0xF0, 0x41]), max_size=3))
def test_bytes_that_end_no_character_are_held_up_to_a_limit(
    request: pytest.FixtureRequest, name: str, runs: list[tuple[int, int]], cuts: list[int], prompt: list[int]
) -> None:
    vocabulary: Vocabulary = request.getfixturevalue(name)
    first = S.BYTE if vocabulary.byte_tokens else 0
    token_ids = [first + byte for byte, count in runs for _ in range(count)]
    begin = start(vocabulary, [first + byte for byte in prompt])
    whole, last = detokenize(vocabulary, begin, token_ids)
    for parts in ([[token_id] for token_id in token_ids], split(token_ids, cuts)):
        text, state = "", begin
        for part in parts:
            more, state = detokenize(vocabulary, state, part)
            text += more
            assert len(state.pending) <= 256
        assert (text, state) == (whole, last)


def test_bytes_beyond_the_limit_are_shown(
    bytes_vocabulary: Vocabulary, stripping_vocabulary: Vocabulary
) -> None:
    text, state = detokenize(bytes_vocabulary, DetokenizerState(), [0x80] * 257 + [0xE2])
    assert (text, state.pending) == (REPLACEMENT * 257, b"\xe2")
    text, state = detokenize(stripping_vocabulary, DetokenizerState(), [S.BYTE + 0x80] * 300)
    assert (text, len(state.pending)) == (REPLACEMENT * 44, 256)
    text, _ = detokenize(stripping_vocabulary, state, [S.BANG])
    assert text == REPLACEMENT * 256 + "!"
