"""Strings and bytes of tokens, some of which end inside a character."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.api_client import generated
from tests.support.decoding_oracle import byte_level_text
from tests.support.models import served
from tests.support.small_tokenizers import metaspace_tokenizer, unruled_byte_tokenizer
from tests.support.vocabularies import BYTE_LEVEL, SENTENCE_PIECE, B, S, library, vocabulary

from .entry_requests import (
    BANG,
    HELLO,
    alternating,
    by_id,
    chat,
    completion,
    entries,
    forms,
)

if TYPE_CHECKING:
    from derender.vocabulary import Vocabulary
    from tests.support.api_client import Client

    from ..conftest import Serve
    from .entry_requests import Form


@pytest.mark.parametrize(
    ("token_ids", "expected"),
    [
        pytest.param([0xC3, 0xA9], ["", "é"], id="2 tokens"),
        pytest.param([0xE2, 0x88, 0x9E], ["", "", "∞"], id="3 tokens"),
        pytest.param([0xF0, 0x9F, 0x98, 0x80], ["", "", "", "😀"], id="4 tokens"),
        pytest.param([B.FIRST_2_OF_GRIN, B.LAST_2_OF_GRIN], ["", "😀"], id="4 bytes in 2 tokens"),
        pytest.param([HELLO, 0xE2, 0x88, 0x9E, BANG], ["Hello", "", "", "∞", "!"], id="within a text"),
        pytest.param([0xE2, 0x88, 0x9E] * 2, ["", "", "∞"] * 2, id="twice"),
        pytest.param(
            [0xF0, 0x9F, 0x98, 0x80, 0xC3, 0xA9], ["", "", "", "😀", "", "é"], id="one after the other"
        ),
        pytest.param([B.SPACE_AND_2_OF_INFINITY, 0x9E], ["", " ∞"], id="the space comes with the character"),
        pytest.param(
            [B.SPACE_AND_2_OF_INFINITY, B.LAST_OF_INFINITY_AND_BANG], ["", " ∞!"], id="the last token says more"
        ),
        pytest.param([0xE2, 0x88], ["", ""], id="cut"),
        pytest.param([int(B.REPLACEMENT), BANG], ["\ufffd", "!"], id="a U+FFFD that the model wrote"),
    ],
)
@forms
def test_the_token_that_completes_a_character_has_all_of_it(
    client: Client, form: Form, token_ids: list[int], expected: list[str]
) -> None:
    token_ids = [int(token_id) for token_id in token_ids]
    got = chat(client, entries(form, [[token_id] for token_id in token_ids]), token_ids)
    assert [entry["token"] for entry in got] == expected
    assert [bytes(entry["bytes"]) for entry in got] == [BYTE_LEVEL[token_id] for token_id in token_ids]
    lists = completion(client, entries(form, [[token_id] for token_id in token_ids]), token_ids)
    assert lists["tokens"] == expected
    assert lists["text_offset"] == [len("".join(expected[:n])) for n in range(len(expected))]


def test_candidates_continue_the_sampled_tokens(client: Client) -> None:
    rows = [[0xE2, 0xE2, 0xC3, HELLO], [0x88, 0x88, 0x89, HELLO], [0xA0, 0x9E, 0xA0, HELLO, 0xE2]]
    first, second, third = chat(client, entries(by_id, rows))
    assert [candidate["token"] for candidate in first["top_logprobs"]] == ["", "", "Hello"]
    assert [candidate["token"] for candidate in second["top_logprobs"]] == ["", "", "Hello"]
    assert [candidate["token"] for candidate in third["top_logprobs"]] == ["∞", "∠", "Hello", ""]
    assert [first["token"], second["token"], third["token"]] == ["", "", "∠"]


def test_a_given_token_ends_the_context(client: Client) -> None:
    content = [
        {**by_id(0xC3), "logprob": -1.0},
        {"token": "\ufffd", "logprob": -1.0, "bytes": [1]},
        {**by_id(0xA9), "logprob": -1.0},
    ]
    assert [entry["token"] for entry in chat(client, content)] == ["", "\ufffd", ""]


@pytest.mark.parametrize(
    "texts",
    [
        ["token_id:0\ntoken_id:1", ""],
        ["token_id:token_id:0", "1"],
        ["token_id:0,1", "token_id:0"],
        ["token_id:0", "\ntoken_id:1"],
        ["token_id:[0]", "token_id:0"],
        ["token_id:true", "token_id:0"],
        ["token_id:", "token_id:0"],
        ["token_id: 0"],
        ["token_id:0\t", "token_id:0"],
        ["token_id:0\r"],
        ["", ""],
    ],
)
def test_text_that_resembles_placeholders_is_passed_on(
    serve: Serve, bytes_vocabulary: Vocabulary, texts: list[str]
) -> None:
    content = [{"token": text, "logprob": -1.0, "bytes": None} for text in texts]
    got = chat(serve(served(bytes_vocabulary)), content)
    whole = [text.removeprefix("token_id:") == "0" for text in texts]
    assert [entry["token"] == text for entry, text in zip(got, texts, strict=True)] == [
        not each for each in whole
    ]


def test_characters_that_share_tokens_are_whole(serve: Serve) -> None:
    """Each token ends one character and begins the next, after more tokens than a character has bytes."""
    pieces = [b"\xf0", b"\x90", b"\x80", b"\x80\xe0", b"\xa0", b"\x80\xe2", b"\x88", b"\x9e"]
    client = serve(served(vocabulary(pieces, eos_token_id=None, stop_token_ids=(), special_token_ids=())))
    got = chat(client, entries(by_id, [[n] for n in range(len(pieces))]), list(range(len(pieces))))
    assert [entry["token"] for entry in got] == [""] * 7 + ["\U00010000\u0800∞"]


@given(
    text=st.text(min_size=1, max_size=12),
    sizes=st.lists(st.integers(1, 5), min_size=80, max_size=80),
    short=st.integers(0, 6),
)
def test_strings_and_bytes_add_up_to_the_output(serve: Serve, text: str, sizes: list[int], short: int) -> None:
    """A text is cut into tokens anywhere, and its generation is cut short."""
    data, pieces = text.encode(), []
    for size in sizes:
        if data:
            pieces.append(data[:size])
            data = data[size:]
    pieces = pieces[: max(len(pieces) - short, 1)]
    distinct = list(dict.fromkeys(pieces))
    client = serve(served(vocabulary(distinct, eos_token_id=None, stop_token_ids=(), special_token_ids=())))
    token_ids = [distinct.index(piece) for piece in pieces]
    body = {
        "generate_response": generated(
            token_ids, logprobs={"content": entries(by_id, [[n] for n in token_ids])}
        )
    }
    choice = client.chat(body).choice
    content = choice["logprobs"]["content"]
    assert b"".join(bytes(entry["bytes"]) for entry in content) == b"".join(pieces)
    assert choice["message"]["content"] == byte_level_text(pieces)
    assert "".join(entry["token"] for entry in content) == byte_level_text(pieces)


@given(token_ids=st.lists(st.integers(0, B.SIZE - 1), min_size=1, max_size=20))
def test_bytes_are_each_tokens_own(client: Client, token_ids: list[int]) -> None:
    got = chat(client, entries(alternating, [[n, n] for n in token_ids]), token_ids)
    assert [bytes(entry["bytes"]) for entry in got] == [BYTE_LEVEL[token_id] for token_id in token_ids]
    for entry in got:
        assert entry["top_logprobs"][0]["bytes"] == entry["bytes"]
        assert entry["top_logprobs"][0]["token"] == entry["token"]


@given(token_ids=st.lists(st.integers(0, B.SIZE - 1), min_size=1, max_size=20))
def test_offsets_count_the_characters_of_earlier_strings(client: Client, token_ids: list[int]) -> None:
    lists = completion(client, entries(by_id, [[n] for n in token_ids]), token_ids)
    offset = 0
    for token, given_offset in zip(lists["tokens"], lists["text_offset"], strict=True):
        assert given_offset == offset
        offset += len(token)


@pytest.mark.parametrize("strip", [False, True])
def test_a_sentence_piece_token_keeps_its_leading_space(
    serve: Serve, spacing_vocabulary: Vocabulary, stripping_vocabulary: Vocabulary, strip: bool
) -> None:
    client = serve(served(stripping_vocabulary if strip else spacing_vocabulary))
    token_ids = [int(S.HELLO), int(S.WORLD)]
    got = chat(client, entries(by_id, [[n] for n in token_ids]), token_ids)
    assert [entry["token"] for entry in got] == [" Hello", " world"]
    assert [bytes(entry["bytes"]) for entry in got] == [b" Hello", b" world"]
    assert completion(client, entries(by_id, [[n] for n in token_ids]), token_ids)["text_offset"] == [0, 6]


@given(
    token_ids=st.lists(
        st.sampled_from([*S][:-1]) | st.integers(S.BYTE + 0x80, S.BYTE + 0xFF), min_size=1, max_size=9
    )
)
def test_sentence_piece_bytes_are_each_tokens_own(
    serve: Serve, spacing_vocabulary: Vocabulary, token_ids: list[int]
) -> None:
    token_ids = [int(token_id) for token_id in token_ids]
    got = chat(serve(served(spacing_vocabulary)), entries(by_id, [[n] for n in token_ids]), token_ids)
    assert [bytes(entry["bytes"]) for entry in got] == [SENTENCE_PIECE[token_id] for token_id in token_ids]


def test_the_last_byte_token_of_a_character_has_all_of_it(serve: Serve, spacing_vocabulary: Vocabulary) -> None:
    token_ids = [S.HELLO, *(S.BYTE + byte for byte in "中".encode()), S.BANG]
    token_ids = [int(token_id) for token_id in token_ids]
    got = chat(serve(served(spacing_vocabulary)), entries(by_id, [[n] for n in token_ids]), token_ids)
    assert [entry["token"] for entry in got] == [" Hello", "", "", "中", "!"]


def test_a_token_of_the_library_keeps_its_leading_space(serve: Serve) -> None:
    tokenizer = metaspace_tokenizer()
    token_ids = tokenizer.encode("Hello world").ids
    client = serve(served(library(tokenizer)))
    got = chat(client, entries(by_id, [[n] for n in token_ids]), token_ids)
    assert [entry["token"] for entry in got] == [" Hello", " world"]
    assert [bytes(entry["bytes"]) for entry in got] == [b" Hello", b" world"]


def test_byte_tokens_of_the_library_have_their_own_byte(serve: Serve) -> None:
    tokenizer = unruled_byte_tokenizer()
    vocab = tokenizer.get_vocab()
    token_ids = [vocab[token] for token in ("▁Hello", "<0xE4>", "<0xB8>", "<0xAD>", "!")]
    byte_token_ids = tuple(token_id for token, token_id in vocab.items() if token.startswith("<0x"))
    client = serve(served(library(tokenizer, byte_token_ids=byte_token_ids)))
    got = chat(client, entries(by_id, [[n] for n in token_ids]), token_ids)
    assert [entry["token"] for entry in got] == [" Hello", "", "", "中", "!"]
    assert [bytes(entry["bytes"]) for entry in got] == [b" Hello", b"\xe4", b"\xb8", b"\xad", b"!"]
