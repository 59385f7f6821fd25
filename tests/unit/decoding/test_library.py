"""Vocabularies that the `tokenizers` library decodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from derender.decoding.detokenizer import decode_text
from derender.vocabulary import TokenizersError, dump
from tests.support.api_client import generated
from tests.support.decoding_oracle import split
from tests.support.models import served
from tests.support.small_tokenizers import metaspace_tokenizer, unruled_byte_tokenizer, word_piece_tokenizer
from tests.support.vocabularies import library, loaded, manifest

from .texts import cuts, deltas, text_of

if TYPE_CHECKING:
    from derender.vocabulary import Vocabulary

    from ..conftest import Serve


@pytest.fixture(scope="module")
def metaspace() -> Vocabulary:
    return library(metaspace_tokenizer(), special_token_ids=(0, 1))


@pytest.fixture(scope="module")
def word_piece() -> Vocabulary:
    return library(word_piece_tokenizer(), special_token_ids=(0, 1))


@pytest.fixture(scope="module")
def unruled() -> Vocabulary:
    return library(unruled_byte_tokenizer(), special_token_ids=(0, 1))


@pytest.fixture(scope="module")
def panicking() -> Vocabulary:
    """The decoder strips a space from both ends, so the library panics at a token that is one space."""
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), (" ", -1.0), ("a", -2.0)], unk_id=0))
    tokenizer.decoder = decoders.Strip(" ", 1, 1)
    definition = tokenizer.to_str().encode()
    return loaded(dump(manifest(rule="tokenizers"), [b"<unk>", b" ", b"a"], definition))


def test_the_library_decodes_what_fits_no_rule(metaspace: Vocabulary, word_piece: Vocabulary) -> None:
    hello, world = metaspace_tokenizer().encode("Hello world").ids
    assert deltas(metaspace, [[hello], [world]]) == ["Hello", " world"]
    assert deltas(metaspace, [[hello], [world]], prompt=[world]) == [" Hello", " world"]
    play, ing, bang = word_piece_tokenizer().encode("playing!").ids
    assert deltas(word_piece, [[play], [ing], [bang]]) == ["play", "ing", "!"]
    assert deltas(word_piece, [[play]], prompt=[bang]) == [" play"]


@pytest.mark.parametrize("name", ["metaspace", "word_piece"])
@given(data=st.data(), cuts=cuts, skip=st.booleans())
def test_any_split_gives_the_same_text(
    request: pytest.FixtureRequest, name: str, data: st.DataObject, cuts: list[int], skip: bool
) -> None:
    vocabulary: Vocabulary = request.getfixturevalue(name)
    ids = st.lists(st.integers(0, vocabulary.manifest.size - 1), max_size=24)
    token_ids, prompt = data.draw(ids), data.draw(ids)
    whole = text_of(vocabulary, token_ids, prompt=prompt, skip=skip)
    assert "".join(deltas(vocabulary, split(token_ids, cuts), prompt=prompt, skip=skip)) == whole


@pytest.mark.parametrize("name", ["metaspace", "word_piece"])
@given(data=st.data())
def test_the_text_is_the_librarys(request: pytest.FixtureRequest, name: str, data: st.DataObject) -> None:
    vocabulary: Vocabulary = request.getfixturevalue(name)
    assert vocabulary.tokenizer is not None
    token_ids = data.draw(st.lists(st.integers(2, vocabulary.manifest.size - 1), max_size=24))
    assert text_of(vocabulary, token_ids) == vocabulary.tokenizer.decode(token_ids)


def test_a_panic_of_the_library_raises_an_ordinary_exception(panicking: Vocabulary) -> None:
    with pytest.raises(TokenizersError):
        text_of(panicking, [1])


def test_a_panic_of_the_library_is_an_internal_error(
    serve: Serve, panicking: Vocabulary, caplog: pytest.LogCaptureFixture
) -> None:
    answer = serve(served(panicking)).chat({"generate_response": generated([1])})
    assert answer.status == 500
    assert answer.error["message"] == "internal error"
    assert "unexpected TokenizersError" in caplog.text


def unruled_ids(*tokens: str) -> list[int]:
    vocab = unruled_byte_tokenizer().get_vocab()
    return [vocab[token] for token in tokens]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["▁Hello", "<0xE4>", "<0xB8>"], " Hello"),
        (["▁Hello", "<0xE4>", "<0xB8>", "<0xAD>"], " Hello中"),
        (["▁Hello", "!", "<0xE4>"], " Hello!"),
        (["<0xE4>"], ""),
    ],
)
def test_a_cut_character_is_withheld(unruled: Vocabulary, tokens: list[str], expected: str) -> None:
    token_ids = unruled_ids(*tokens)
    assert text_of(unruled, token_ids) == expected
    assert "".join(deltas(unruled, [[token_id] for token_id in token_ids])) == expected


@pytest.mark.parametrize(
    ("prompt", "tokens", "expected"),
    [
        (["▁Hello", "<0xE4>"], ["!"], "!"),
        (["▁Hello", "<0xE4>", "<0xB8>"], ["▁world"], " world"),
        (["▁Hello", "<0xE4>", "<0xB8>"], ["<0xAD>", "!"], "中!"),
    ],
)
def test_the_prompt_is_not_repeated(
    unruled: Vocabulary, prompt: list[str], tokens: list[str], expected: str
) -> None:
    assert text_of(unruled, unruled_ids(*tokens), prompt=unruled_ids(*prompt)) == expected


@given(data=st.data(), cuts=cuts)
def test_any_split_with_byte_tokens_gives_the_same_text(
    unruled: Vocabulary, data: st.DataObject, cuts: list[int]
) -> None:
    ids = st.lists(
        st.sampled_from(unruled_ids("▁Hello", "!", "é", "<0xE4>", "<0xB8>", "<0xAD>", "<0x41>")), max_size=12
    )
    token_ids = data.draw(ids)
    whole = text_of(unruled, token_ids)
    assert "".join(deltas(unruled, split(token_ids, cuts))) == whole


@pytest.mark.parametrize("name", ["metaspace", "word_piece"])
@given(data=st.data())
def test_a_text_of_its_own_is_the_librarys(
    request: pytest.FixtureRequest, name: str, data: st.DataObject
) -> None:
    vocabulary: Vocabulary = request.getfixturevalue(name)
    assert vocabulary.tokenizer is not None
    token_ids = data.draw(st.lists(st.integers(0, vocabulary.manifest.size - 1), max_size=24))
    expected = vocabulary.tokenizer.decode(token_ids, skip_special_tokens=False)
    assert decode_text(vocabulary, token_ids) == expected


@pytest.mark.parametrize("tokens", [["▁Hello", "<0xE4>", "<0xB8>"], ["<0xE4>"], ["▁Hello", "<0xE4>", "!"]])
def test_a_text_of_its_own_ends_with_a_cut_character(unruled: Vocabulary, tokens: list[str]) -> None:
    token_ids = unruled_ids(*tokens)
    assert decode_text(unruled, token_ids) == unruled_byte_tokenizer().decode(token_ids)
