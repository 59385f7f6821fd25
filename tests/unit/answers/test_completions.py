"""Text completions of complete generations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api_client import COMPLETIONS, generated
from tests.support.full_requests import FULL, bad_request
from tests.support.vocabularies import B

if TYPE_CHECKING:
    from tests.support.api_client import Client

HELLO, WORLD, BANG, EOS = int(B.HELLO), int(B.WORLD), int(B.BANG), int(B.EOS)


def test_a_text_completion_has_every_field(client: Client) -> None:
    answer = client.completions(FULL[COMPLETIONS])
    assert answer.status == 200
    body = answer.json
    assert isinstance(body.pop("created"), int)
    assert body == {
        "id": "gen-1",
        "object": "text_completion",
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "text": "Hello world",
                "logprobs": {
                    "tokens": ["Hello", " world"],
                    "token_logprobs": [-0.5, -0.5],
                    "top_logprobs": [{"Hello": -0.5}, {"given": -0.5}],
                    "text_offset": [0, 5],
                },
                "finish_reason": "stop",
                "stop_reason": None,
                "token_ids": [HELLO, WORLD, EOS],
                "prompt_logprobs": [None, {str(BANG): {"logprob": -1.0, "rank": 1, "decoded_token": "!"}}],
                "prompt_token_ids": [HELLO, BANG],
                "routed_experts": "abc",
                "weight_versions": [1],
            }
        ],
        "service_tier": None,
        "system_fingerprint": None,
        "usage": {
            "prompt_tokens": 2,
            "total_tokens": 5,
            "completion_tokens": 3,
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
        },
        "kv_transfer_params": {"a": [1]},
        "ec_transfer_params": None,
        "metrics": {"b": 1.5},
    }


def test_choices_are_numbered_across_responses(client: Client) -> None:
    two = {
        "request_id": "b",
        "choices": [{"index": n, "token_ids": [n + 65]} for n in (0, 1)],
        "metrics": {"c": 1},
    }
    body = client.completions({"generate_responses": [generated([HELLO]), two], "prompt_tokens": [3, 4]}).json
    assert [(choice["index"], choice["text"]) for choice in body["choices"]] == [
        (0, "Hello"),
        (1, "A"),
        (2, "B"),
    ]
    assert body["id"] == "gen-1"
    assert body["metrics"] is None
    assert body["usage"]["prompt_tokens"] == 7
    assert body["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("name", ["kv_transfer_params", "ec_transfer_params"])
@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ({"a": 1}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 2}, None),
        ({"a": 1}, None, None),
        (None, {"a": 1}, None),
        (None, None, None),
    ],
)
def test_transfer_parameters_are_kept_if_all_responses_agree(
    client: Client, name: str, first: Any, second: Any, kept: Any
) -> None:
    responses = [{**generated([HELLO]), name: value} for value in (first, second)]
    assert client.completions({"generate_responses": responses}).json[name] == kept


def test_each_response_continues_its_own_prompt(client: Client) -> None:
    infinity = generated([0x9E, BANG])
    own = {**infinity, "prompt_token_ids": [0xE2, 0x88]}
    body = {
        "generate_responses": [infinity, own, own],
        "prompt_token_ids": [[HELLO, 0xE2, 0x88], None, [HELLO]],
    }
    texts = [choice["text"] for choice in client.completions(body).json["choices"]]
    assert texts == ["∞!", "∞!", "\ufffd!"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prompt_tokens", []),
        ("prompt_tokens", [1, 2]),
        ("prompt_token_ids", []),
        ("prompt_token_ids", [[1], [2]]),
        ("prompt_token_ids", [None, None]),
    ],
)
def test_prompts_and_responses_must_be_equally_many(client: Client, name: str, value: Any) -> None:
    error = bad_request(client, COMPLETIONS, {**FULL[COMPLETIONS], name: value})
    assert error["param"] == name
    assert f"({len(value)})" in error["message"]
    assert "(1)" in error["message"]


def test_an_empty_list_of_responses_is_refused(client: Client) -> None:
    error = bad_request(client, COMPLETIONS, {"generate_responses": []})
    assert error["param"] == "generate_responses"
    assert error["type"] == "BadRequestError"
    bad_request(client, COMPLETIONS, {"generate_responses": [], "prompt_tokens": []})


def test_prompt_lengths_that_overflow_are_counted_or_refused(client: Client) -> None:
    answer = client.completions(
        {"generate_responses": [generated([HELLO])] * 2, "prompt_tokens": [2**63 - 1] * 2}
    )
    if answer.status == 200:
        assert answer.json["usage"]["prompt_tokens"] == 2**64 - 2
    else:
        assert answer.status == 400
        assert "prompt_tokens" in answer.error["param"]
