"""What `bytes` contains, and prompt logprobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.api_client import generated
from tests.support.models import served
from tests.support.vocabularies import B, S

from .entry_requests import (
    HELLO,
    INFINITY,
    WORLD,
    by_id,
    chat,
    completion,
    entries,
    forms,
)

if TYPE_CHECKING:
    from derender.logprobs.writer import LogprobBytes
    from derender.vocabulary import Vocabulary
    from tests.support.api_client import Client

    from ..conftest import Serve
    from .entry_requests import Form


def test_peer_bytes_are_those_of_the_string(serve: Serve, bytes_vocabulary: Vocabulary) -> None:
    client = serve(served(bytes_vocabulary, logprob_bytes="peer"))
    token_ids = [HELLO, 0xE2, 0x88, 0x9E, int(B.E_ACUTE), 0xE2]
    got = chat(client, entries(by_id, [[n, n] for n in token_ids]), token_ids)
    expected = [list(b"Hello"), [], [], INFINITY, list("é".encode()), []]
    assert [entry["bytes"] for entry in got] == expected
    assert [entry["top_logprobs"][0]["bytes"] for entry in got] == expected


def test_peer_bytes_of_a_given_token_are_passed_on(serve: Serve, bytes_vocabulary: Vocabulary) -> None:
    client = serve(served(bytes_vocabulary, logprob_bytes="peer"))
    assert chat(client, [{"token": "x", "logprob": -0.5, "bytes": [1, 2]}])[0]["bytes"] == [1, 2]


@forms
@pytest.mark.parametrize("logprob_bytes", ["exact", "peer"])
def test_tokens_of_a_chat_may_be_named_by_id(
    serve: Serve, bytes_vocabulary: Vocabulary, form: Form, logprob_bytes: LogprobBytes
) -> None:
    """Their bytes are the same as those beside their strings."""
    client = serve(served(bytes_vocabulary, logprob_bytes=logprob_bytes))
    token_ids = [HELLO, 0xE2, 0x88, 0x9E, int(B.E_ACUTE), int(B.EOS)]
    content = entries(form, [[n, n, 0x9E] for n in token_ids])
    named = chat(client, content, token_ids)
    by_ids = chat(client, content, token_ids, return_tokens_as_token_ids=True)
    for token_id, entry, shown in zip(token_ids, named, by_ids, strict=True):
        names = [f"token_id:{token_id}", "token_id:158"]
        expected = [
            {**candidate, "token": name} for candidate, name in zip(entry["top_logprobs"], names, strict=True)
        ]
        assert shown == {**entry, "token": names[0], "top_logprobs": expected}


@forms
def test_tokens_of_a_completion_may_be_named_by_id(client: Client, form: Form) -> None:
    token_ids = [HELLO, 0xE2, WORLD]
    shown = completion(
        client, entries(form, [[n, n, 0x9E] for n in token_ids]), token_ids, return_tokens_as_token_ids=True
    )
    names = [f"token_id:{token_id}" for token_id in token_ids]
    assert shown["tokens"] == names
    assert shown["top_logprobs"] == [{name: -0.25, "token_id:158": -0.75} for name in names]
    assert shown["text_offset"] == [0, len(names[0]), len(names[0]) + len(names[1])]


def test_tokens_that_came_as_text_have_no_id(client: Client) -> None:
    content = [{"token": "x", "logprob": -0.5, "top_logprobs": [{"token_id": HELLO, "logprob": -1}]}]
    assert completion(client, content, return_tokens_as_token_ids=True)["tokens"] == ["x"]
    (entry,) = chat(client, content, return_tokens_as_token_ids=True)
    assert (entry["token"], entry["top_logprobs"][0]["token"]) == ("x", f"token_id:{HELLO}")


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


def test_a_byte_token_that_is_not_utf_8_is_a_replacement_character(
    serve: Serve, spacing_vocabulary: Vocabulary
) -> None:
    prompt = [{str(S.BYTE + 0xE4): {"logprob": -1.0, "decoded_token": None}}]
    response = {**generated([int(S.HELLO)]), "prompt_logprobs": prompt}
    answer = serve(served(spacing_vocabulary)).chat({"generate_response": response})
    assert answer.json["prompt_logprobs"] == [
        {str(S.BYTE + 0xE4): {"logprob": -1.0, "decoded_token": "\ufffd"}}
    ]


@pytest.mark.parametrize("value", [None, [], [None], [{}], [{"1": {}}], [None, {"1": {"logprob": -1}}]])
def test_prompt_logprobs_without_null_tokens_are_passed_on(client: Client, value: list[Any] | None) -> None:
    response = {**generated([HELLO]), "prompt_logprobs": value}
    answer = client.chat({"generate_response": response})
    assert answer.status == 200
    assert answer.json["prompt_logprobs"] == value


def test_logprobs_are_json_for_tokens_of_any_bytes(client: Client) -> None:
    """The tokens are all bytes: quotes, backslashes and control characters, too."""
    token_ids = list(range(64))
    for start in range(0, 256, 64):
        ids = [start + n for n in token_ids]
        content = entries(by_id, [[n, n] for n in ids])
        body = {"generate_response": generated(ids, logprobs={"content": content})}
        answer = json.loads(client.chat(body).body)
        assert [entry["bytes"] for entry in answer["choices"][0]["logprobs"]["content"]] == [[n] for n in ids]
