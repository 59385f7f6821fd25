"""Ids → text, in pieces: expected text is written down, or comes from an oracle or the `tokenizers` library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from derender.decoding.detokenizer import DetokenizerState, decode_text, detokenize, start
from derender.vocabulary import TokenizersError, dump
from tests.support.api_client import generated
from tests.support.decoding_oracle import REPLACEMENT, byte_fallback_text, byte_level_text, split
from tests.support.models import served
from tests.support.small_tokenizers import (
    WORDS,
    id_of,
    metaspace_tokenizer,
    unruled_byte_tokenizer,
    word_piece_tokenizer,
)
from tests.support.vocabularies import BYTE_LEVEL, SENTENCE_PIECE, B, S, library, loaded, manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.vocabulary import Vocabulary

    from .conftest import Compiled, Serve

X: Final = S.BYTE
"""Byte N of a SentencePiece vocabulary is id X + N."""
B_SPECIAL: Final = {B.EOS, B.OTHER_EOS, B.PAD}
S_SPECIAL: Final = {S.UNK, S.BOS, S.EOS}

cuts = st.lists(st.integers(0, 4), max_size=30)
bytes_ids = st.lists(
    st.integers(0, B.SIZE - 1) | st.sampled_from([*B][:-1]) | st.integers(0x80, 0xFF), max_size=24
)
pieces_ids = st.lists(
    st.integers(0, S.SIZE - 1) | st.sampled_from([*S][:-1]) | st.integers(X + 0x80, X + 0xFF), max_size=24
)
words = st.lists(
    st.sampled_from([*WORDS, "!", "é", "中", "👩", " ", "<think>"]) | st.text(max_size=4), max_size=8
).map("".join)


def text_of(
    vocabulary: Vocabulary,
    token_ids: Sequence[int],
    *,
    prompt: Sequence[int] | None = None,
    skip: bool = True,
) -> str:
    state = start(vocabulary, prompt, skip_special_tokens=skip)
    return detokenize(vocabulary, state, token_ids, skip_special_tokens=skip)[0]


def deltas(
    vocabulary: Vocabulary,
    pieces: Sequence[Sequence[int]],
    *,
    prompt: Sequence[int] | None = None,
    skip: bool = True,
) -> list[str]:
    state = start(vocabulary, prompt, skip_special_tokens=skip)
    texts = []
    for piece in pieces:
        text, state = detokenize(vocabulary, state, piece, skip_special_tokens=skip)
        texts.append(text)
    return texts


# --- byte-level -----------------------------------------------------------------------------------------------


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
def test_byte_level_text_is_up_to_the_last_token_that_ends_a_character(
    bytes_vocabulary: Vocabulary, token_ids: list[int], skip: bool
) -> None:
    visible = [token_id for token_id in token_ids if not (skip and token_id in B_SPECIAL)]
    expected = byte_level_text([BYTE_LEVEL[token_id] for token_id in visible])
    assert text_of(bytes_vocabulary, token_ids, skip=skip) == expected


@given(token_ids=bytes_ids, cuts=cuts, prompt=st.none() | bytes_ids, skip=st.booleans())
def test_byte_level_text_is_the_same_however_it_is_split(
    bytes_vocabulary: Vocabulary, token_ids: list[int], cuts: list[int], prompt: list[int] | None, skip: bool
) -> None:
    whole = text_of(bytes_vocabulary, token_ids, prompt=prompt, skip=skip)
    assert "".join(deltas(bytes_vocabulary, split(token_ids, cuts), prompt=prompt, skip=skip)) == whole


# --- SentencePiece with byte fallback -------------------------------------------------------------------------


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
def test_the_leading_space_is_dropped_at_a_texts_start_alone(
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
def test_byte_fallback_text_is_characters_taken_off_each_run(
    spacing_vocabulary: Vocabulary, stripping_vocabulary: Vocabulary, token_ids: list[int], skip: bool
) -> None:
    visible = [token_id for token_id in token_ids if not (skip and token_id in S_SPECIAL)]
    expected = byte_fallback_text([(SENTENCE_PIECE[n], X <= n < X + 256) for n in visible])
    assert text_of(spacing_vocabulary, token_ids, skip=skip) == expected
    assert text_of(stripping_vocabulary, token_ids, skip=skip) == expected.removeprefix(" ")


@given(token_ids=pieces_ids, cuts=cuts, prompt=st.none() | pieces_ids, skip=st.booleans())
@example(token_ids=[S.SPACE, S.HELLO], cuts=[1], prompt=None, skip=True)
def test_byte_fallback_text_is_the_same_however_it_is_split(
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


# --- the `tokenizers` library's rule --------------------------------------------------------------------------


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
    """The library panics at a token that is one space: its decoder strips one from both ends."""
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
def test_library_text_is_the_same_however_it_is_split(
    request: pytest.FixtureRequest, name: str, data: st.DataObject, cuts: list[int], skip: bool
) -> None:
    vocabulary: Vocabulary = request.getfixturevalue(name)
    ids = st.lists(st.integers(0, vocabulary.manifest.size - 1), max_size=24)
    token_ids, prompt = data.draw(ids), data.draw(ids)
    whole = text_of(vocabulary, token_ids, prompt=prompt, skip=skip)
    assert "".join(deltas(vocabulary, split(token_ids, cuts), prompt=prompt, skip=skip)) == whole


@pytest.mark.parametrize("name", ["metaspace", "word_piece"])
@given(data=st.data())
def test_library_text_is_what_the_library_decodes(
    request: pytest.FixtureRequest, name: str, data: st.DataObject
) -> None:
    vocabulary: Vocabulary = request.getfixturevalue(name)
    assert vocabulary.tokenizer is not None
    token_ids = data.draw(st.lists(st.integers(2, vocabulary.manifest.size - 1), max_size=24))
    assert text_of(vocabulary, token_ids) == vocabulary.tokenizer.decode(token_ids)


def test_a_panic_of_the_library_is_an_ordinary_exception(panicking: Vocabulary) -> None:
    with pytest.raises(TokenizersError):
        text_of(panicking, [1])


def test_a_panic_of_the_library_is_told_as_an_internal_error(
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
def test_the_library_withholds_a_cut_character_alone(
    unruled: Vocabulary, tokens: list[str], expected: str
) -> None:
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
def test_the_library_never_repeats_the_prompt(
    unruled: Vocabulary, prompt: list[str], tokens: list[str], expected: str
) -> None:
    assert text_of(unruled, unruled_ids(*tokens), prompt=unruled_ids(*prompt)) == expected


@given(data=st.data(), cuts=cuts)
def test_library_text_with_bytes_is_the_same_however_it_is_split(
    unruled: Vocabulary, data: st.DataObject, cuts: list[int]
) -> None:
    ids = st.lists(
        st.sampled_from(unruled_ids("▁Hello", "!", "é", "<0xE4>", "<0xB8>", "<0xAD>", "<0x41>")), max_size=12
    )
    token_ids = data.draw(ids)
    whole = text_of(unruled, token_ids)
    assert "".join(deltas(unruled, split(token_ids, cuts))) == whole


# --- texts of their own ---------------------------------------------------------------------------------------


@given(token_ids=bytes_ids)
def test_a_byte_level_text_is_all_bytes(bytes_vocabulary: Vocabulary, token_ids: list[int]) -> None:
    data = b"".join(BYTE_LEVEL[token_id] for token_id in token_ids)
    assert decode_text(bytes_vocabulary, token_ids) == data.decode(errors="replace")


@given(token_ids=pieces_ids)
def test_a_byte_fallback_text_is_all_runs(spacing_vocabulary: Vocabulary, token_ids: list[int]) -> None:
    # A piece ends the last run, and with it what is held.
    pieces = [(SENTENCE_PIECE[n], X <= n < X + 256) for n in [*token_ids, int(S.BANG)]]
    assert decode_text(spacing_vocabulary, token_ids) == byte_fallback_text(pieces).removesuffix("!")


@pytest.mark.parametrize("name", ["metaspace", "word_piece"])
@given(data=st.data())
def test_the_text_of_the_library_is_what_it_decodes(
    request: pytest.FixtureRequest, name: str, data: st.DataObject
) -> None:
    vocabulary: Vocabulary = request.getfixturevalue(name)
    assert vocabulary.tokenizer is not None
    token_ids = data.draw(st.lists(st.integers(0, vocabulary.manifest.size - 1), max_size=24))
    expected = vocabulary.tokenizer.decode(token_ids, skip_special_tokens=False)
    assert decode_text(vocabulary, token_ids) == expected


@pytest.mark.parametrize("tokens", [["▁Hello", "<0xE4>", "<0xB8>"], ["<0xE4>"], ["▁Hello", "<0xE4>", "!"]])
def test_the_text_of_the_library_ends_with_what_is_cut_off(unruled: Vocabulary, tokens: list[str]) -> None:
    token_ids = unruled_ids(*tokens)
    assert decode_text(unruled, token_ids) == unruled_byte_tokenizer().decode(token_ids)


# --- against the `tokenizers` library -------------------------------------------------------------------------


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
def test_the_text_is_what_it_adds_to_the_prompts(
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
def test_qwen3_text_is_what_it_adds_to_the_prompts(
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
def test_a_state_is_not_used_up(bytes_vocabulary: Vocabulary, token_ids: list[int]) -> None:
    """All choices of a response start from one state."""
    state = start(bytes_vocabulary, [B.HELLO, 0xE2])
    first = detokenize(bytes_vocabulary, state, token_ids)
    assert detokenize(bytes_vocabulary, state, token_ids) == first
    assert REPLACEMENT not in first[0] or token_ids


def test_the_library_shows_a_replacement_character_that_the_model_wrote() -> None:
    tokenizer = word_piece_tokenizer(extra=("\ufffd",))
    ids = [id_of(tokenizer, "hello"), id_of(tokenizer, "\ufffd")]
    text, state = detokenize(library(tokenizer, special_token_ids=(0, 1)), DetokenizerState(), ids)
    assert (text, state.pending_ids) == ("hello \ufffd", 0)


RUNS: Final = st.lists(
    st.tuples(st.sampled_from([0x80, 0xBF, 0xC3, 0xE2, 0xF0, 0xFF, 0x9F, 0x98, 0x41]), st.integers(1, 400)),
    max_size=5,
)
"""Bytes, most of which end no character, many times."""


@pytest.mark.parametrize("name", ["bytes_vocabulary", "stripping_vocabulary"])
@given(runs=RUNS, cuts=cuts, prompt=st.lists(st.sampled_from([0xE2, 0x88, 0xF0, 0x41]), max_size=3))
def test_garbage_is_held_up_to_a_bound_however_it_comes(
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


def test_of_garbage_all_but_the_bound_is_shown(
    bytes_vocabulary: Vocabulary, stripping_vocabulary: Vocabulary
) -> None:
    text, state = detokenize(bytes_vocabulary, DetokenizerState(), [0x80] * 257 + [0xE2])
    assert (text, state.pending) == (REPLACEMENT * 257, b"\xe2")
    text, state = detokenize(stripping_vocabulary, DetokenizerState(), [S.BYTE + 0x80] * 300)
    assert (text, len(state.pending)) == (REPLACEMENT * 44, 256)
    text, _ = detokenize(stripping_vocabulary, state, [S.BANG])
    assert text == REPLACEMENT * 256 + "!"
