"""Fields of a request: missing, of a wrong type, null, or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.support.api_client import CHAT, COMPLETIONS
from tests.support.full_requests import ASKED, CHOICE, ENTRY, FULL, GENERATED, PATHS, bad_request, both, within
from tests.support.json_mutations import at, deleted, places, replaced

if TYPE_CHECKING:
    from tests.support.api_client import Client
    from tests.support.json_mutations import Place


@pytest.mark.parametrize("name", ["nope", "TINY", "tiny ", "of-the-engine", "a\nb", "x" * 10_000])
@both
def test_an_unknown_model_is_not_found(client: Client, path: str, name: str) -> None:
    answer = client.post(path, {**FULL[path], "model": name})
    assert answer.status == 404
    assert answer.error["type"] == "NotFoundError"
    assert answer.error["param"] == "model"
    assert "tiny" in answer.error["message"]


@pytest.mark.parametrize("value", ["text", "", "Tokens", None, 5, ["tokens"], True])
@both
def test_other_output_modes_are_refused(client: Client, path: str, value: object) -> None:
    error = bad_request(client, path, within(path, ("output_mode",), value))
    assert "output_mode" in error["param"]
    assert "tokens" in error["message"]


@pytest.mark.parametrize("value", ["false", 1, None, [], {}])
@both
def test_stream_must_be_a_boolean(client: Client, path: str, value: object) -> None:
    error = bad_request(client, path, {**FULL[path], "stream": value})
    assert "stream" in error["param"]


@both
def test_a_missing_response_is_named(client: Client, path: str) -> None:
    field = str(GENERATED[path][0])
    error = bad_request(client, path, deleted(FULL[path], (field,)))
    assert error["param"] == field
    assert field in error["message"]


@pytest.mark.parametrize(
    "place", [("choices",), (*CHOICE, "index"), (*ENTRY, "logprob"), (*ENTRY, "top_logprobs", 0, "logprob")]
)
@both
def test_a_missing_field_is_named(client: Client, path: str, place: Place) -> None:
    body = deleted(FULL[path], (*GENERATED[path], *place))
    error = bad_request(client, path, body)
    assert str(place[-1]) in error["param"] + error["message"]
    assert place[0] in error["param"]


A: Final = {
    "object": {},
    "list": [],
    "string": "x",
    "digits": "1",
    "number": 1,
    "negative": -1,
    "fraction": 1.5,
    "true": True,
    "null": None,
    "list of null": [None],
    "list of strings": ["x"],
    "list of numbers": [1],
    "list of lists": [[1]],
    "list of objects": [{}],
}
"""Values of every type."""


TYPES: Final[dict[Place, set[str]]] = {
    ("request_id",): {"string", "digits"},
    ("choices",): {"list"},
    ("choices", 0): set(),
    (*CHOICE, "index"): {"number", "negative"},
    (*CHOICE, "token_ids"): {"list of numbers"},
    (*CHOICE, "token_ids", 0): {"number"},
    (*CHOICE, "finish_reason"): {"string", "digits", "null"},
    (*CHOICE, "stop_reason"): {"string", "digits", "number", "negative", "null"},
    (*CHOICE, "logprobs"): {"object", "null"},
    (*CHOICE, "logprobs", "content"): {"list", "null"},
    ENTRY: set(),
    (*ENTRY, "token_id"): {"number"},
    (*ENTRY, "logprob"): {"number", "negative", "fraction"},
    (*ENTRY, "top_logprobs"): {"list", "null"},
    (*ENTRY, "top_logprobs", 0): set(),
    (*ENTRY, "top_logprobs", 0, "token_id"): {"number"},
    (*ENTRY, "top_logprobs", 0, "logprob"): {"number", "negative", "fraction"},
    ("prompt_token_ids",): {"list", "list of numbers", "null"},
    ("prompt_token_ids", 0): {"number"},
    ("prompt_logprobs",): {"list", "list of null", "list of objects", "null"},
    ("prompt_logprobs", 1): {"object", "null"},
    ("output_mode",): set(),
}
"""For each place in a generate response, the types it may have besides its value in `RESPONSE`."""


CLIENT_TYPES: Final[dict[str, set[str]]] = {
    "skip_special_tokens": {"true", "null"},
    "spaces_between_special_tokens": {"true", "null"},
    "stop": {"string", "digits", "list", "list of strings", "null"},
    "stop_token_ids": {"list", "list of numbers", "null"},
    "include_stop_str_in_output": {"true", "null"},
    "ignore_eos": {"true", "null"},
    "min_tokens": {"number", "null"},
    "logprob_token_ids": {"list", "list of numbers", "null"},
    "return_token_ids": {"true", "null"},
    "return_tokens_as_token_ids": {"true", "null"},
}


TOP_TYPES: Final[dict[str, dict[str, set[str]]]] = {
    CHAT: {
        "model": {"null"},
        "prompt_tokens": {"number", "null"},
        "prompt_token_ids": {"list", "list of numbers", "null"},
        "chat_request": {"object", "null"},
        "generate_response": set(),
    },
    COMPLETIONS: {
        "model": {"null"},
        "prompt_tokens": {"list of numbers", "null"},
        "prompt_token_ids": {"list of lists", "list of null", "null"},
        "completion_request": {"object", "null"},
    },
}


NOT_FOUND: Final = {"model": {"string", "digits"}}


def field_of(place: Place) -> str:
    return next(str(name) for name in reversed(place) if isinstance(name, str))


def check_types(client: Client, path: str, place: Place, allowed: set[str]) -> None:
    for kind, value in A.items():
        answer = client.post(path, replaced(FULL[path], place, value))
        if kind in allowed:
            assert answer.status == 200, (place, kind, answer.body)
        elif kind in NOT_FOUND.get(str(place[-1]), ()) and len(place) == 1:
            assert answer.status == 404, (place, kind, answer.body)
        else:
            assert answer.status == 400, (place, kind, answer.body)
            bounded = place[-1] == "token_id" and kind in ("negative", "null")
            assert ("logprobs" if bounded else field_of(place)) in answer.error["param"], (
                place,
                kind,
                answer.error,
            )


@pytest.mark.parametrize("place", TYPES, ids=lambda place: ".".join(map(str, place)))
@both
def test_a_wrong_type_in_a_generate_response_is_named(client: Client, path: str, place: Place) -> None:
    check_types(client, path, (*GENERATED[path], *place), TYPES[place])


@pytest.mark.parametrize("name", [*CLIENT_TYPES, "logprobs", "top_logprobs"])
@both
def test_a_wrong_type_in_the_client_request_is_named(client: Client, path: str, name: str) -> None:
    types = {
        **CLIENT_TYPES,
        "logprobs": {"true", "null"} if path == CHAT else {"number", "negative", "null"},
        "top_logprobs": {"number", "negative", "null"} if path == CHAT else set(A),
    }
    check_types(client, path, (ASKED[path], name), types[name])


@pytest.mark.parametrize(("path", "name"), [(path, name) for path in PATHS for name in TOP_TYPES[path]])
def test_a_wrong_type_at_the_top_is_named(client: Client, path: str, name: str) -> None:
    check_types(client, path, (name,), TOP_TYPES[path][name])


def test_generate_responses_must_be_a_list(client: Client) -> None:
    for kind, value in A.items():
        error = bad_request(client, COMPLETIONS, {"generate_responses": value})
        assert "generate_responses" in error["param"], kind


@pytest.mark.parametrize("name", [*CLIENT_TYPES, "logprobs", "top_logprobs"])
@both
def test_null_in_the_client_request_means_unset(client: Client, path: str, name: str) -> None:
    asked = FULL[path][ASKED[path]]
    unset = {field: value for field, value in asked.items() if field != name}
    with_null = client.post(path, {**FULL[path], ASKED[path]: {**asked, name: None}})
    without = client.post(path, {**FULL[path], ASKED[path]: unset})
    assert with_null.status == without.status == 200
    assert with_null.json["choices"] == without.json["choices"]


@pytest.mark.parametrize("stop", ["", [""], ["a", ""]])
@both
def test_an_empty_stop_string_is_refused(client: Client, path: str, stop: object) -> None:
    error = bad_request(client, path, {**FULL[path], ASKED[path]: {"stop": stop}})
    assert "stop" in error["param"]


@pytest.mark.parametrize("value", [None, 1, "x", [], {"deep": [{"er": [None]}]}, [[[[]]]]])
@both
def test_unknown_fields_are_accepted_everywhere(client: Client, path: str, value: object) -> None:
    expected = client.post(path, FULL[path]).json["choices"]
    objects = [place for place in places(FULL[path]) if isinstance(at(FULL[path], place), dict)]
    carried = {"kv_transfer_params", "metrics", "prompt_logprobs"}
    for place in objects:
        if carried.isdisjoint(place):
            answer = client.post(path, replaced(FULL[path], (*place, "of_a_newer_server"), value))
            assert answer.status == 200, (place, answer.body)
            assert answer.json["choices"] == expected


@pytest.mark.parametrize(
    "name",
    [
        "messages",
        "temperature",
        "stream_options",
        "response_format",
        "n",
        "prompt",
        "max_tokens",
    ],
)
@pytest.mark.parametrize("value", [None, 0, "x", [], {}, [{"a": 1}]])
@both
def test_unread_fields_of_the_client_request_may_be_anything(
    client: Client, path: str, name: str, value: object
) -> None:
    assert client.post(path, {**FULL[path], ASKED[path]: {name: value}}).status == 200
