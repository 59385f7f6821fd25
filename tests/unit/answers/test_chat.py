"""Chat completions of complete generations."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.api_client import CHAT, generated
from tests.support.full_requests import FULL, both
from tests.support.vocabularies import B

if TYPE_CHECKING:
    from tests.support.api_client import Client

HELLO, WORLD, BANG, EOS = int(B.HELLO), int(B.WORLD), int(B.BANG), int(B.EOS)


def test_a_chat_completion_has_every_field(client: Client) -> None:
    before = int(time.time())
    answer = client.chat(FULL[CHAT])
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    body = answer.json
    assert before <= body.pop("created") <= time.time()
    hello, world = list(b"Hello"), list(b" world")
    assert body == {
        "id": "gen-1",
        "object": "chat.completion",
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Hello world",
                    "refusal": None,
                    "annotations": None,
                    "audio": None,
                    "function_call": None,
                    "reasoning": None,
                },
                "logprobs": {
                    "content": [
                        {
                            "token": "Hello",
                            "logprob": -0.5,
                            "bytes": hello,
                            "top_logprobs": [{"token": "Hello", "logprob": -0.5, "bytes": hello}],
                        },
                        {
                            "token": " world",
                            "logprob": -0.5,
                            "bytes": world,
                            "top_logprobs": [{"token": "given", "logprob": -0.5, "bytes": None}],
                        },
                    ]
                },
                "finish_reason": "stop",
                "stop_reason": None,
                "token_ids": [HELLO, WORLD, EOS],
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
        "prompt_logprobs": [None, {str(BANG): {"logprob": -1.0, "rank": 1, "decoded_token": "!"}}],
        "prompt_token_ids": [HELLO, BANG],
        "prompt_text": None,
        "kv_transfer_params": {"a": [1]},
        "ec_transfer_params": None,
        "metrics": {"b": 1.5},
    }


def test_a_minimal_request_is_answered(client: Client) -> None:
    response = {"request_id": "r", "choices": [{"index": 3, "token_ids": [HELLO]}]}
    body = client.chat({"generate_response": response}).json
    assert (body["id"], body["model"], body["usage"]["total_tokens"]) == ("r", "tiny", 1)
    assert (body["choices"][0]["index"], body["choices"][0]["message"]["content"]) == (3, "Hello")
    assert body["choices"][0]["token_ids"] is body["prompt_token_ids"] is None
    body = client.completions({"generate_responses": [response]}).json
    assert (body["id"], body["choices"][0]["index"], body["choices"][0]["text"]) == ("r", 0, "Hello")


def test_the_requests_prompt_takes_precedence_over_the_responses(client: Client) -> None:
    response = {**generated([0x9E, BANG]), "prompt_token_ids": [0xE2, 0x88]}
    assert client.chat({"generate_response": response}).choice["message"]["content"] == "∞!"
    body = {"generate_response": response, "prompt_token_ids": [HELLO]}
    assert client.chat(body).choice["message"]["content"] == "\ufffd!"


def test_all_choices_continue_the_same_prompt(client: Client) -> None:
    choices = [{"index": n, "token_ids": ids} for n, ids in enumerate(([0x9E], [HELLO], [0x9E, BANG]))]
    body = {"generate_response": {"request_id": "r", "choices": choices}, "prompt_token_ids": [0xE2, 0x88]}
    contents = [choice["message"]["content"] for choice in client.chat(body).json["choices"]]
    assert contents == ["∞", "Hello", "∞!"]


@pytest.mark.parametrize("name", ["tiny", "small", "", None])
@both
def test_every_name_of_the_model_is_accepted(client: Client, path: str, name: str | None) -> None:
    assert client.post(path, {**FULL[path], "model": name}).json["model"] == (name or "tiny")
