"""Logprob entries of both forms, and the candidates that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.api_client import generated
from tests.support.vocabularies import B

from .entry_requests import (
    BANG,
    HELLO,
    WORLD,
    by_id,
    by_placeholder,
    chat,
    completion,
    entries,
    forms,
)

if TYPE_CHECKING:
    from tests.support.api_client import Client

    from .entry_requests import Form


@forms
def test_chat_logprobs_have_the_tokens_text(client: Client, form: Form) -> None:
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


def test_both_forms_may_occur_in_one_list(client: Client) -> None:
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
def test_a_token_that_is_not_a_placeholder_is_passed_on(
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


def test_a_token_without_bytes_is_passed_on_with_null(client: Client) -> None:
    assert chat(client, [{"token": "x", "logprob": -0.5}]) == [
        {"token": "x", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    ]


def test_given_tokens_with_equal_text_keep_their_own_bytes(client: Client) -> None:
    content = [{"token": "x", "logprob": -0.5, "bytes": own} for own in ([1], [2], None, [1])]
    assert [entry["bytes"] for entry in chat(client, content)] == [[1], [2], None, [1]]


@pytest.mark.parametrize("digits", [21, 100, 4000, 5000, 20_000])
def test_a_placeholder_with_many_digits_is_refused_or_passed_on(client: Client, digits: int) -> None:
    token = "token_id:" + "9" * digits
    answer = client.chat(
        {"generate_response": generated([HELLO], logprobs={"content": [{"token": token, "logprob": 0}]})}
    )
    assert answer.status in (200, 400)


def test_special_tokens_have_strings_although_the_text_skips_them(client: Client) -> None:
    content = entries(by_id, [[int(B.EOS), int(B.PAD)]])
    asked = {"logprobs": True, "top_logprobs": 1}
    (entry,) = chat(client, content, [HELLO, int(B.EOS)], **asked)
    assert (entry["token"], bytes(entry["bytes"])) == ("<|end|>", b"<|end|>")
    assert [candidate["token"] for candidate in entry["top_logprobs"]] == ["<|pad|>"]


def test_padding_ids_have_no_text(client: Client) -> None:
    (entry,) = chat(client, entries(by_id, [[int(B.UNNAMED)]]))
    assert (entry["token"], entry["bytes"]) == ("", [])


def test_absent_logprobs_stay_null(client: Client) -> None:
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
def test_log_probabilities_are_passed_on_exactly(client: Client, number: float) -> None:
    content = [{**by_id(HELLO), "logprob": number, "top_logprobs": [{**by_id(BANG), "logprob": number}]}]
    (entry,) = chat(client, content)
    assert (entry["logprob"], entry["top_logprobs"][0]["logprob"]) == (number, number)
    assert completion(client, content)["token_logprobs"] == [number]
    assert completion(client, content)["top_logprobs"] == [{"!": number}]


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
def test_chat_keeps_the_requested_candidates(
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
def test_completions_keep_the_requested_candidates(
    client: Client, form: Form, asked: dict[str, Any], kept: int
) -> None:
    (row,) = completion(client, entries(form, [ROW]), **asked)["top_logprobs"]
    assert list(row.items()) == [("Hello", -0.25), ("!", -0.75), (" world", -1.25), ("é", -1.75)][:kept]


def test_dropped_candidates_are_not_checked(client: Client) -> None:
    content = [{**by_id(HELLO), "logprob": -1.0, "top_logprobs": [{**by_id(B.SIZE), "logprob": -2.0}]}]
    (entry,) = chat(client, content, logprobs=True)
    assert entry["top_logprobs"] == []
