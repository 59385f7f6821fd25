"""Logprobs: token strings, bytes, candidates and offsets, in both forms and for both clients."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.api_client import generated
from tests.support.decoding_oracle import byte_level_text
from tests.support.models import served
from tests.support.small_tokenizers import metaspace_tokenizer, unruled_byte_tokenizer
from tests.support.vocabularies import BYTE_LEVEL, SENTENCE_PIECE, B, S, library, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from derender.vocabulary import Vocabulary
    from tests.support.api_client import Client

    from .conftest import Serve

    Form = Callable[[int], dict[str, Any]]

HELLO, WORLD, BANG = int(B.HELLO), int(B.WORLD), int(B.BANG)
INFINITY: Final = list("∞".encode())


def by_id(token_id: int) -> dict[str, Any]:
    return {"token_id": token_id, "rank": 1}


def by_placeholder(token_id: int) -> dict[str, Any]:
    return {"token": f"token_id:{token_id}", "bytes": None}


def alternating(token_id: int) -> dict[str, Any]:
    return by_id(token_id) if token_id % 2 else by_placeholder(token_id)


FORMS: Final = [by_id, by_placeholder, alternating]
forms = pytest.mark.parametrize("form", FORMS)


def entries(form: Form, rows: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Entries of the ids: a position's sampled token, then its candidates, each less probable by 0.5."""
    return [
        {
            **form(sampled),
            "logprob": -0.25,
            "top_logprobs": [{**form(token_id), "logprob": -0.25 - n / 2} for n, token_id in enumerate(others)],
        }
        for sampled, *others in rows
    ]


def chat(
    client: Client, content: Any, token_ids: Sequence[int] = (HELLO,), **asked: Any
) -> list[dict[str, Any]]:
    body: dict[str, Any] = {"generate_response": generated(list(token_ids), logprobs={"content": content})}
    if asked:
        body["chat_request"] = asked
    answer = client.chat(body)
    assert answer.status == 200, answer.body
    result: list[dict[str, Any]] = answer.choice["logprobs"]["content"]
    return result


def completion(
    client: Client, content: Any, token_ids: Sequence[int] = (HELLO,), **asked: Any
) -> dict[str, Any]:
    body: dict[str, Any] = {"generate_responses": [generated(list(token_ids), logprobs={"content": content})]}
    if asked:
        body["completion_request"] = asked
    answer = client.completions(body)
    assert answer.status == 200, answer.body
    result: dict[str, Any] = answer.choice["logprobs"]
    return result


# --- both forms -----------------------------------------------------------------------------------------------


@forms
def test_chat_logprobs_name_tokens_by_their_text(client: Client, form: Form) -> None:
    content = entries(form, [[HELLO, HELLO, BANG], [WORLD]])
    assert chat(client, content) == [
        {
            "token": "Hello",
            "bytes": [72, 101, 108, 108, 111],
            "logprob": -0.25,
            "top_logprobs": [
                {"token": "Hello", "bytes": [72, 101, 108, 108, 111], "logprob": -0.25},
                {"token": "!", "bytes": [33], "logprob": -0.75},
            ],
        },
        {"token": " world", "bytes": [32, 119, 111, 114, 108, 100], "logprob": -0.25, "top_logprobs": []},
    ]


@forms
def test_completion_logprobs_are_parallel_lists(client: Client, form: Form) -> None:
    content = entries(form, [[HELLO, HELLO, BANG], [int(B.E_ACUTE), int(B.E_ACUTE)], [WORLD, BANG, WORLD]])
    assert completion(client, content) == {
        "tokens": ["Hello", "é", " world"],
        "token_logprobs": [-0.25, -0.25, -0.25],
        "top_logprobs": [{"Hello": -0.25, "!": -0.75}, {"é": -0.25}, {"!": -0.25, " world": -0.75}],
        "text_offset": [0, 5, 6],
    }


def test_both_forms_mix_in_one_list(client: Client) -> None:
    content = [
        {**by_id(HELLO), "logprob": -1.0, "top_logprobs": [{**by_placeholder(BANG), "logprob": -2.0}]},
        {**by_placeholder(WORLD), "logprob": -3.0, "top_logprobs": [{**by_id(HELLO), "logprob": -4.0}]},
        {"token": "given", "bytes": [1], "logprob": -5.0, "top_logprobs": [{**by_id(BANG), "logprob": -6.0}]},
    ]
    got = chat(client, content)
    assert [entry["token"] for entry in got] == ["Hello", " world", "given"]
    assert [entry["top_logprobs"][0]["token"] for entry in got] == ["!", "Hello", "!"]
    assert [entry["logprob"] for entry in got] == [-1.0, -3.0, -5.0]


@pytest.mark.parametrize(
    "token",
    [
        "text",
        "",
        "token_id:",
        "token_id:x",
        "token_id:1.5",
        "token_id:0x1",
        "TOKEN_ID:5",
        " token_id:5",
        "a token_id:5",
    ],
)
@pytest.mark.parametrize("own", [None, [], [1, 2, 255]])
def test_a_token_that_is_no_placeholder_passes_unchanged(
    client: Client, token: str, own: list[int] | None
) -> None:
    given_token = {"token": token, "logprob": -0.5, "bytes": own}
    content = [{**given_token, "top_logprobs": [given_token]}]
    assert chat(client, content) == [{**given_token, "top_logprobs": [given_token]}]
    assert completion(client, [*content, *content]) == {
        "tokens": [token, token],
        "token_logprobs": [-0.5, -0.5],
        "top_logprobs": [{token: -0.5}, {token: -0.5}],
        "text_offset": [0, len(token)],
    }


def test_a_token_without_bytes_passes_with_none(client: Client) -> None:
    assert chat(client, [{"token": "x", "logprob": -0.5}]) == [
        {"token": "x", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    ]


def test_given_tokens_of_one_text_keep_their_own_bytes(client: Client) -> None:
    content = [{"token": "x", "logprob": -0.5, "bytes": own} for own in ([1], [2], None, [1])]
    assert [entry["bytes"] for entry in chat(client, content)] == [[1], [2], None, [1]]


@pytest.mark.parametrize("digits", [21, 100, 4000, 5000, 20_000])
def test_a_placeholder_of_very_many_digits_is_refused_or_passes(client: Client, digits: int) -> None:
    token = "token_id:" + "9" * digits
    answer = client.chat(
        {"generate_response": generated([HELLO], logprobs={"content": [{"token": token, "logprob": 0}]})}
    )
    assert answer.status in (200, 400)


def test_special_tokens_are_named_though_the_text_skips_them(client: Client) -> None:
    content = entries(by_id, [[int(B.EOS), int(B.PAD)]])
    asked = {"logprobs": True, "top_logprobs": 1}
    (entry,) = chat(client, content, [HELLO, int(B.EOS)], **asked)
    assert (entry["token"], bytes(entry["bytes"])) == ("<|end|>", b"<|end|>")
    assert [candidate["token"] for candidate in entry["top_logprobs"]] == ["<|pad|>"]


def test_padding_ids_have_no_text(client: Client) -> None:
    (entry,) = chat(client, entries(by_id, [[int(B.UNNAMED)]]))
    assert (entry["token"], entry["bytes"]) == ("", [])


def test_no_logprobs_stay_none(client: Client) -> None:
    response = generated([HELLO])
    assert client.chat({"generate_response": response}).choice["logprobs"] is None
    assert client.completions({"generate_responses": [response]}).choice["logprobs"] is None


@pytest.mark.parametrize("content", [None, []])
def test_empty_logprobs_stay_empty(client: Client, content: list[Any] | None) -> None:
    response = generated([HELLO], logprobs={"content": content})
    assert client.chat({"generate_response": response}).choice["logprobs"] == {"content": content}
    assert client.completions({"generate_responses": [response]}).choice["logprobs"] == {
        "tokens": [],
        "token_logprobs": [],
        "top_logprobs": [],
        "text_offset": [],
    }


def test_a_position_without_candidates_is_null_in_completions(client: Client) -> None:
    content = [
        {**by_id(HELLO), "logprob": -1.0},
        {**by_id(HELLO), "logprob": -1.0, "top_logprobs": None},
        {**by_id(HELLO), "logprob": -1.0, "top_logprobs": []},
        {**by_id(HELLO), "logprob": -1.0, "top_logprobs": [{**by_id(BANG), "logprob": -2.0}]},
    ]
    assert completion(client, content)["top_logprobs"] == [None, None, None, {"!": -2.0}]
    assert [entry["top_logprobs"] for entry in chat(client, content)][:3] == [[], [], []]


@pytest.mark.parametrize("number", [0, -1, -0.0, -1e-9, -9999.0, -0.1, -123.456789012345678, 1e-320])
def test_numbers_are_passed_on_as_they_are(client: Client, number: float) -> None:
    content = [{**by_id(HELLO), "logprob": number, "top_logprobs": [{**by_id(BANG), "logprob": number}]}]
    (entry,) = chat(client, content)
    assert (entry["logprob"], entry["top_logprobs"][0]["logprob"]) == (number, number)
    assert completion(client, content)["token_logprobs"] == [number]
    assert completion(client, content)["top_logprobs"] == [{"!": number}]


# --- how many candidates --------------------------------------------------------------------------------------

ROW: Final = [HELLO, HELLO, BANG, WORLD, int(B.E_ACUTE)]


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        pytest.param({}, 4, id="no request"),
        pytest.param({"logprobs": True}, 0, id="unset"),
        pytest.param({"logprobs": True, "top_logprobs": None}, 0, id="null"),
        pytest.param({"logprobs": True, "top_logprobs": 0}, 0, id="0"),
        pytest.param({"logprobs": True, "top_logprobs": 1}, 1, id="1"),
        pytest.param({"logprobs": True, "top_logprobs": 3}, 3, id="3"),
        pytest.param({"logprobs": True, "top_logprobs": 20}, 4, id="more than there are"),
        pytest.param({"logprobs": True, "top_logprobs": -1}, 4, id="all"),
        pytest.param({"logprobs": True, "top_logprobs": 1, "logprob_token_ids": [BANG]}, 4, id="named ids"),
        pytest.param({"logprobs": True, "logprob_token_ids": [BANG]}, 4, id="named ids alone"),
        pytest.param({"logprobs": True, "top_logprobs": 1, "logprob_token_ids": []}, 1, id="no named ids"),
        pytest.param({"logprobs": True, "top_logprobs": 1, "logprob_token_ids": None}, 1, id="null named ids"),
    ],
)
@forms
def test_chat_keeps_the_candidates_that_were_asked_for(
    client: Client, form: Form, asked: dict[str, Any], kept: int
) -> None:
    (entry,) = chat(client, entries(form, [ROW]), **asked)
    assert [candidate["token"] for candidate in entry["top_logprobs"]] == ["Hello", "!", " world", "é"][:kept]


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        pytest.param({}, 4, id="no request"),
        pytest.param({"max_tokens": 5}, 4, id="unset"),
        pytest.param({"logprobs": None}, 4, id="null"),
        pytest.param({"logprobs": 0}, 1, id="0"),
        pytest.param({"logprobs": 1}, 2, id="1"),
        pytest.param({"logprobs": 2}, 3, id="2"),
        pytest.param({"logprobs": 20}, 4, id="more than there are"),
        pytest.param({"logprobs": -1}, 4, id="all"),
        pytest.param({"logprobs": 0, "logprob_token_ids": [BANG]}, 4, id="named ids"),
    ],
)
@forms
def test_completions_keep_the_candidates_that_were_asked_for(
    client: Client, form: Form, asked: dict[str, Any], kept: int
) -> None:
    (row,) = completion(client, entries(form, [ROW]), **asked)["top_logprobs"]
    assert list(row.items()) == [("Hello", -0.25), ("!", -0.75), (" world", -1.25), ("é", -1.75)][:kept]


def test_candidates_that_are_cut_are_not_looked_at(client: Client) -> None:
    content = [{**by_id(HELLO), "logprob": -1.0, "top_logprobs": [{**by_id(B.SIZE), "logprob": -2.0}]}]
    (entry,) = chat(client, content, logprobs=True)
    assert entry["top_logprobs"] == []


# --- characters of several tokens -----------------------------------------------------------------------------


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
def test_the_last_token_of_a_character_carries_it(
    client: Client, form: Form, token_ids: list[int], expected: list[str]
) -> None:
    token_ids = [int(token_id) for token_id in token_ids]
    got = chat(client, entries(form, [[token_id] for token_id in token_ids]), token_ids)
    assert [entry["token"] for entry in got] == expected
    assert [bytes(entry["bytes"]) for entry in got] == [BYTE_LEVEL[token_id] for token_id in token_ids]
    lists = completion(client, entries(form, [[token_id] for token_id in token_ids]), token_ids)
    assert lists["tokens"] == expected
    assert lists["text_offset"] == [len("".join(expected[:n])) for n in range(len(expected))]


def test_candidates_continue_what_was_sampled_before(client: Client) -> None:
    rows = [[0xE2, 0xE2, 0xC3, HELLO], [0x88, 0x88, 0x89, HELLO], [0xA0, 0x9E, 0xA0, HELLO, 0xE2]]
    first, second, third = chat(client, entries(by_id, rows))
    assert [candidate["token"] for candidate in first["top_logprobs"]] == ["", "", "Hello"]
    assert [candidate["token"] for candidate in second["top_logprobs"]] == ["", "", "Hello"]
    assert [candidate["token"] for candidate in third["top_logprobs"]] == ["∞", "∠", "Hello", ""]
    assert [first["token"], second["token"], third["token"]] == ["", "", "∠"]


def test_a_given_token_is_no_context(client: Client) -> None:
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
def test_text_that_only_resembles_placeholders_is_passed_on(
    serve: Serve, bytes_vocabulary: Vocabulary, texts: list[str]
) -> None:
    content = [{"token": text, "logprob": -1.0, "bytes": None} for text in texts]
    got = chat(serve(served(bytes_vocabulary)), content)
    whole = [text.removeprefix("token_id:") == "0" for text in texts]
    assert [entry["token"] == text for entry, text in zip(got, texts, strict=True)] == [
        not each for each in whole
    ]


def test_characters_that_chain_through_tokens_are_whole(serve: Serve) -> None:
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
    """A text in UTF-8, cut into tokens anywhere, and its generation cut short."""
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
def test_bytes_are_each_tokens_own_whatever_it_stands_beside(client: Client, token_ids: list[int]) -> None:
    got = chat(client, entries(alternating, [[n, n] for n in token_ids]), token_ids)
    assert [bytes(entry["bytes"]) for entry in got] == [BYTE_LEVEL[token_id] for token_id in token_ids]
    for entry in got:
        assert entry["top_logprobs"][0]["bytes"] == entry["bytes"]
        assert entry["top_logprobs"][0]["token"] == entry["token"]


@given(token_ids=st.lists(st.integers(0, B.SIZE - 1), min_size=1, max_size=20))
def test_offsets_count_the_characters_of_the_strings_before(client: Client, token_ids: list[int]) -> None:
    lists = completion(client, entries(by_id, [[n] for n in token_ids]), token_ids)
    offset = 0
    for token, given_offset in zip(lists["tokens"], lists["text_offset"], strict=True):
        assert given_offset == offset
        offset += len(token)


# --- SentencePiece and the library ----------------------------------------------------------------------------


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


def test_byte_tokens_carry_a_character_together(serve: Serve, spacing_vocabulary: Vocabulary) -> None:
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


def test_a_byte_token_of_the_library_has_its_own_byte(serve: Serve) -> None:
    tokenizer = unruled_byte_tokenizer()
    vocab = tokenizer.get_vocab()
    token_ids = [vocab[token] for token in ("▁Hello", "<0xE4>", "<0xB8>", "<0xAD>", "!")]
    byte_token_ids = tuple(token_id for token, token_id in vocab.items() if token.startswith("<0x"))
    client = serve(served(library(tokenizer, byte_token_ids=byte_token_ids)))
    got = chat(client, entries(by_id, [[n] for n in token_ids]), token_ids)
    assert [entry["token"] for entry in got] == [" Hello", "", "", "中", "!"]
    assert [bytes(entry["bytes"]) for entry in got] == [b" Hello", b"\xe4", b"\xb8", b"\xad", b"!"]


# --- the peer's bytes -----------------------------------------------------------------------------------------


def test_peer_bytes_are_those_of_the_string(serve: Serve, bytes_vocabulary: Vocabulary) -> None:
    client = serve(served(bytes_vocabulary, logprob_bytes="peer"))
    token_ids = [HELLO, 0xE2, 0x88, 0x9E, int(B.E_ACUTE), 0xE2]
    got = chat(client, entries(by_id, [[n, n] for n in token_ids]), token_ids)
    expected = [list(b"Hello"), [], [], INFINITY, list("é".encode()), []]
    assert [entry["bytes"] for entry in got] == expected
    assert [entry["top_logprobs"][0]["bytes"] for entry in got] == expected


def test_peer_bytes_of_a_given_token_are_as_sent(serve: Serve, bytes_vocabulary: Vocabulary) -> None:
    client = serve(served(bytes_vocabulary, logprob_bytes="peer"))
    assert chat(client, [{"token": "x", "logprob": -0.5, "bytes": [1, 2]}])[0]["bytes"] == [1, 2]


# --- prompt logprobs ------------------------------------------------------------------------------------------

PROMPT: Final = [
    None,
    {
        str(HELLO): {"logprob": -1.0, "rank": 1, "decoded_token": None},
        "33": {"logprob": -2.0, "rank": 2, "decoded_token": "as sent"},
        str(WORLD): {"logprob": -3.0, "rank": 3},
        "0": {"logprob": -4.0, "rank": None, "decoded_token": None, "extra": [1, {"a": None}]},
    },
    {},
]
FILLED: Final = [
    None,
    {
        str(HELLO): {"logprob": -1.0, "rank": 1, "decoded_token": "Hello"},
        "33": {"logprob": -2.0, "rank": 2, "decoded_token": "as sent"},
        str(WORLD): {"logprob": -3.0, "rank": 3},
        "0": {"logprob": -4.0, "rank": None, "decoded_token": "\x00", "extra": [1, {"a": None}]},
    },
    {},
]


def test_null_decoded_tokens_of_the_prompt_are_filled_in(client: Client) -> None:
    response = {**generated([HELLO]), "prompt_logprobs": PROMPT}
    assert client.chat({"generate_response": response}).json["prompt_logprobs"] == FILLED
    answer = client.completions({"generate_responses": [response, generated([HELLO])]})
    assert [choice["prompt_logprobs"] for choice in answer.json["choices"]] == [FILLED, None]


@pytest.mark.parametrize("value", [None, [], [None], [{}], [{"1": {}}], [None, {"1": {"logprob": -1}}]])
def test_prompt_logprobs_without_null_tokens_pass_unchanged(client: Client, value: list[Any] | None) -> None:
    response = {**generated([HELLO]), "prompt_logprobs": value}
    answer = client.chat({"generate_response": response})
    assert answer.status == 200
    assert answer.json["prompt_logprobs"] == value


def test_logprobs_are_json_whatever_the_tokens_hold(client: Client) -> None:
    """Each byte's token, a quote and a backslash and control characters among them."""
    token_ids = list(range(64))
    for start in range(0, 256, 64):
        ids = [start + n for n in token_ids]
        content = entries(by_id, [[n, n] for n in ids])
        body = {"generate_response": generated(ids, logprobs={"content": content})}
        answer = json.loads(client.chat(body).body)
        assert [entry["bytes"] for entry in answer["choices"][0]["logprobs"]["content"]] == [[n] for n in ids]
