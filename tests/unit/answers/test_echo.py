"""Completions that begin with their prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.api_client import COMPLETIONS, generated
from tests.support.full_requests import bad_request
from tests.support.models import served
from tests.support.vocabularies import B, S

if TYPE_CHECKING:
    from derender.vocabulary import Vocabulary
    from tests.support.api_client import Client

    from ..conftest import Serve

HELLO, COMMA, WORLD, BANG, EOS, PAD = map(int, (B.HELLO, B.COMMA, B.WORLD, B.BANG, B.EOS, B.PAD))
PROMPT: Final = [PAD, HELLO, COMMA]
PROMPT_LOGPROBS: Final = [
    None,
    {str(HELLO): {"logprob": -0.5, "rank": 2}, str(BANG): {"logprob": -0.25, "rank": 1}},
    {str(COMMA): {"logprob": -1, "rank": 1, "decoded_token": "ignored"}, "97": {"logprob": -2.0}},
]
OUTPUT: Final = [WORLD, BANG]
LOGPROBS: Final = {
    "content": [
        {
            "token_id": token_id,
            "logprob": -0.125,
            "top_logprobs": [{"token_id": token_id, "logprob": -0.125}, {"token_id": 98, "logprob": -3.0}],
        }
        for token_id in OUTPUT
    ]
}


def echo(client: Client, **asked: Any) -> dict[str, Any]:
    """Return the choice of an answer to a client that asked for echo and logprobs."""
    response = generated(OUTPUT, logprobs=LOGPROBS, finish_reason="length")
    body = {
        "generate_responses": [{**response, "prompt_logprobs": PROMPT_LOGPROBS}],
        "prompt_token_ids": [PROMPT],
        "completion_request": {"echo": True, "logprobs": 1, **asked},
    }
    answer = client.completions(body)
    assert answer.status == 200, answer.body
    choice: dict[str, Any] = answer.choice
    return choice


def test_the_text_and_the_logprobs_begin_with_the_prompt(client: Client) -> None:
    choice = echo(client)
    assert choice["text"] == "<|pad|>Hello, world!"
    assert choice["logprobs"] == {
        "tokens": ["<|pad|>", "Hello", ",", " world", "!"],
        "token_logprobs": [None, -0.5, -1, -0.125, -0.125],
        "top_logprobs": [
            None,
            {"Hello": -0.5, "!": -0.25},
            {",": -1, "a": -2.0},
            {" world": -0.125, "b": -3.0},
            {"!": -0.125, "b": -3.0},
        ],
        "text_offset": [0, 7, 12, 13, 19],
    }
    assert choice["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("asked", "count"), [({"logprobs": 0}, 1), ({"logprobs": 1}, 2), ({"logprobs": -1}, 2)], ids=str
)
def test_as_many_candidates_of_the_prompt_are_kept_as_of_the_output(
    client: Client, asked: dict[str, Any], count: int
) -> None:
    _, *candidates = echo(client, **asked)["logprobs"]["top_logprobs"]
    assert [len(each) for each in candidates] == [count] * 4


def test_tokens_of_the_prompt_may_be_named_by_id(client: Client) -> None:
    logprobs = echo(client, return_tokens_as_token_ids=True)["logprobs"]
    assert logprobs["tokens"] == [f"token_id:{token_id}" for token_id in PROMPT + OUTPUT]
    assert logprobs["top_logprobs"][1] == {f"token_id:{HELLO}": -0.5, f"token_id:{BANG}": -0.25}
    assert logprobs["text_offset"] == [0, 12, 24, 36, 48]


def test_without_logprobs_only_the_text_is_echoed(client: Client) -> None:
    response = generated(OUTPUT)
    body = {
        "generate_responses": [response],
        "prompt_token_ids": [PROMPT],
        "completion_request": {"echo": True},
    }
    choice = client.completions(body).choice
    assert (choice["text"], choice["logprobs"]) == ("<|pad|>Hello, world!", None)


def test_logprobs_of_the_prompt_need_none_of_the_output(client: Client) -> None:
    response = {**generated(OUTPUT), "prompt_logprobs": PROMPT_LOGPROBS}
    asked = {"echo": True, "logprobs": 1}
    body = {"generate_responses": [response], "prompt_token_ids": [PROMPT], "completion_request": asked}
    assert client.completions(body).choice["logprobs"]["tokens"] == ["<|pad|>", "Hello", ","]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("as sent\n", "as sent\n world!"),
        (["as sent"], "as sent world!"),
        ([PROMPT], "<|pad|>Hello, world!"),
        (PROMPT, "<|pad|>Hello, world!"),
        ([], "<|pad|>Hello, world!"),
        (None, "<|pad|>Hello, world!"),
        ({"other": 1}, "<|pad|>Hello, world!"),
    ],
    ids=str,
)
def test_a_text_is_echoed_as_the_client_sent_it(client: Client, given: Any, text: str) -> None:
    assert echo(client, prompt=given)["text"] == text


def test_each_choice_of_each_prompt_begins_with_its_prompt(client: Client) -> None:
    choices = [{"index": index, "token_ids": [BANG]} for index in range(2)]
    body = {
        "generate_responses": [{"choices": choices}, {"choices": choices, "prompt_token_ids": [HELLO]}],
        "completion_request": {"echo": True, "prompt": ["one", [HELLO]]},
    }
    texts = [choice["text"] for choice in client.completions(body).json["choices"]]
    assert texts == ["one!", "one!", "Hello!", "Hello!"]


def test_a_character_may_begin_in_the_prompt(client: Client) -> None:
    body = {
        "generate_responses": [generated([0x9E, BANG])],
        "prompt_token_ids": [[HELLO, 0xE2, 0x88]],
        "completion_request": {"echo": True},
    }
    assert client.completions(body).choice["text"] == "Hello∞!"


def test_a_first_token_inside_a_character_has_no_string(client: Client) -> None:
    response = generated([BANG])
    response["prompt_logprobs"] = [None, *({str(n): {"logprob": -1.0}} for n in (0x88, 0x9E))]
    body = {
        "generate_responses": [response],
        "prompt_token_ids": [[0xE2, 0x88, 0x9E]],
        "completion_request": {"echo": True, "logprobs": 0},
    }
    choice = client.completions(body).choice
    assert choice["text"] == "∞!"
    assert choice["logprobs"]["tokens"] == ["", "", "∞"]
    assert choice["logprobs"]["text_offset"] == [0, 0, 0]


def test_a_sentence_keeps_its_spaces(serve: Serve, stripping_vocabulary: Vocabulary) -> None:
    client = serve(served(stripping_vocabulary))
    body = {
        "generate_responses": [generated([int(S.HELLO)])],
        "prompt_token_ids": [[int(S.HELLO)]],
        "completion_request": {"echo": True},
    }
    first, second = client.completions(body).choice["text"].split(" ")
    assert first == second


# --- the prompt alone -----------------------------------------------------------------------------------------


def test_the_answer_may_be_the_prompt_alone(client: Client) -> None:
    """The generate server had to generate a token, which counts."""
    response = generated([EOS], logprobs={"content": [{"token_id": EOS, "logprob": -0.5}]}, stop_reason=5)
    body = {
        "generate_responses": [{**response, "prompt_logprobs": PROMPT_LOGPROBS}],
        "prompt_token_ids": [PROMPT],
        "completion_request": {"echo": True, "logprobs": 0, "max_tokens": 0, "return_token_ids": True},
    }
    answer = client.completions(body)
    choice = answer.choice
    assert choice["text"] == "<|pad|>Hello,"
    assert choice["logprobs"]["token_logprobs"] == [None, -0.5, -1]
    assert (choice["finish_reason"], choice["stop_reason"], choice["token_ids"]) == ("length", None, [])
    assert answer.json["usage"]["completion_tokens"] == 1


@pytest.mark.parametrize("asked", [{"max_tokens": False}, {"max_tokens": "0"}, {"max_tokens": 1}, {}], ids=str)
def test_the_output_is_dropped_only_if_none_was_asked_for(client: Client, asked: dict[str, Any]) -> None:
    assert echo(client, **asked)["text"] == "<|pad|>Hello, world!"


def test_max_tokens_of_0_mean_nothing_without_echo(client: Client) -> None:
    asked = {"max_tokens": 0}
    body = {"generate_responses": [generated([HELLO])], "completion_request": asked}
    assert client.completions(body).choice["text"] == "Hello"


# --- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "asked", "param"),
    [
        ({"prompt_token_ids": None}, {}, "prompt_token_ids.0"),
        ({"prompt_tokens": [4]}, {}, "prompt_token_ids.0"),
        ({"prompt_token_ids": [[HELLO, COMMA]]}, {}, "generate_responses.0.prompt_logprobs"),
        ({}, {"prompt_logprobs": None}, "generate_responses.0.prompt_logprobs"),
        ({}, {"prompt_logprobs": [None]}, "generate_responses.0.prompt_logprobs"),
        (
            {},
            {"prompt_logprobs": [*PROMPT_LOGPROBS[:2], {"7": {"logprob": -1}}]},
            "generate_responses.0.prompt_logprobs.2",
        ),
        (
            {},
            {"prompt_logprobs": [*PROMPT_LOGPROBS[:2], {str(COMMA): {"logprob": "-1"}}]},
            "generate_responses.0.prompt_logprobs.2",
        ),
        (
            {},
            {"prompt_logprobs": [*PROMPT_LOGPROBS[:2], {str(COMMA): {}}]},
            "generate_responses.0.prompt_logprobs.2",
        ),
    ],
)
def test_a_prompt_that_is_not_known_is_refused(
    client: Client, change: dict[str, Any], asked: dict[str, Any], param: str
) -> None:
    body = {
        "generate_responses": [{**generated(OUTPUT), "prompt_logprobs": PROMPT_LOGPROBS, **asked}],
        "prompt_token_ids": [PROMPT],
        "completion_request": {"echo": True, "logprobs": 1},
        **change,
    }
    assert bad_request(client, COMPLETIONS, body)["param"] == param
