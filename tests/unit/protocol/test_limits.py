"""Limits of a request: lengths, counts and ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.protocol import limits as limits_module
from tests.support.api_client import CHAT, COMPLETIONS, generated
from tests.support.full_requests import ASKED, CHOICE, ENTRY, FULL, bad_request, both, within
from tests.support.vocabularies import B

if TYPE_CHECKING:
    from tests.support.api_client import Client
    from tests.support.json_mutations import Place

HELLO, SIZE = int(B.HELLO), int(B.SIZE)


@pytest.mark.parametrize("value", [[], None])
@both
def test_empty_ids_are_refused_with_the_choice(client: Client, path: str, value: object) -> None:
    choices = [{"index": 0, "token_ids": [HELLO]}, {"index": 7, "token_ids": value}]
    error = bad_request(client, path, within(path, ("choices",), choices))
    assert "choice 7" in error["message"]
    assert "token_ids" in error["message"]
    assert error["type"] == "BadRequestError"
    assert "token_ids" in error["param"]


@both
def test_missing_ids_are_refused_with_the_choice(client: Client, path: str) -> None:
    error = bad_request(client, path, within(path, CHOICE, {"index": 2}))
    assert "choice 2" in error["message"]


ID_PLACES: Final[dict[str, Place]] = {
    "token_ids": (*CHOICE, "token_ids", 1),
    "prompt_token_ids": ("prompt_token_ids", 0),
    "logprobs": (*ENTRY, "token_id"),
    "logprobs candidate": (*ENTRY, "top_logprobs", 0, "token_id"),
}


@pytest.mark.parametrize("token_id", [SIZE, SIZE + 1, 10**6, 2**31, 2**32, 2**63 - 1])
@pytest.mark.parametrize("field", ID_PLACES)
@both
def test_ids_outside_the_vocabulary_are_refused_with_the_id(
    client: Client, path: str, field: str, token_id: int
) -> None:
    error = bad_request(client, path, within(path, ID_PLACES[field], token_id))
    assert str(token_id) in error["message"]
    assert "vocabulary" in error["message"]
    assert field.partition(" ")[0] in error["param"]
    assert error["type"] == "BadRequestError"


@pytest.mark.parametrize("field", ID_PLACES)
@both
def test_ids_of_the_vocabulary_are_accepted(client: Client, path: str, field: str) -> None:
    for token_id in (0, SIZE - 1, int(B.UNNAMED)):
        assert client.post(path, within(path, ID_PLACES[field], token_id)).status == 200


@pytest.mark.parametrize("token_id", [-1, -(2**31), -(2**63)])
@pytest.mark.parametrize("field", ID_PLACES)
@both
def test_negative_ids_are_refused(client: Client, path: str, field: str, token_id: int) -> None:
    error = bad_request(client, path, within(path, ID_PLACES[field], token_id))
    assert field.partition(" ")[0] in error["param"]


@pytest.mark.parametrize("text", [f"token_id:{SIZE}", "token_id:-1", f"token_id:{10**30}"])
@pytest.mark.parametrize("place", [ENTRY, (*ENTRY, "top_logprobs", 0)])
@both
def test_placeholders_outside_the_vocabulary_are_refused(
    client: Client, path: str, place: Place, text: str
) -> None:
    entry = {"token": text, "logprob": -0.5}
    error = bad_request(client, path, within(path, place, entry))
    assert "logprobs" in error["param"]
    assert "vocabulary" in error["message"]


@pytest.mark.parametrize("place", [ENTRY, (*ENTRY, "top_logprobs", 0)])
@both
def test_an_entry_that_names_no_token_is_refused(client: Client, path: str, place: Place) -> None:
    error = bad_request(client, path, within(path, place, {"logprob": -0.5}))
    assert "token_id" in error["message"]
    assert "logprobs" in error["param"]


@pytest.mark.parametrize(
    "name", [str(SIZE), "-1", str(2**64), "9" * 30, "9" * 5000, "x", "", "1.0", "٣", " 1", "1_0"]
)
@both
def test_prompt_logprobs_with_unusual_keys_are_refused_or_passed_on(
    client: Client, path: str, name: str
) -> None:
    value = [{name: {"logprob": -1.0, "rank": 1, "decoded_token": None}}]
    answer = client.post(path, within(path, ("prompt_logprobs",), value))
    assert answer.status == 400 or name not in (str(SIZE), str(2**64))
    if answer.status == 400:
        assert "prompt_logprobs" in answer.error["param"]
    else:
        assert answer.status == 200


@pytest.mark.parametrize("value", [[SIZE], [-1], ["1"], [None], [[1]], [1.5], "1", 5, {}])
def test_a_bad_prompt_is_refused(client: Client, value: Any) -> None:
    error = bad_request(client, CHAT, {**FULL[CHAT], "prompt_token_ids": value})
    assert "prompt_token_ids" in error["param"]
    error = bad_request(client, COMPLETIONS, {**FULL[COMPLETIONS], "prompt_token_ids": [value]})
    assert "prompt_token_ids" in error["param"]


BOUNDS: Final[list[tuple[str, Place, Any, Any, int]]] = [
    ("token_ids", (*CHOICE, "token_ids"), [HELLO] * 64, [HELLO] * 65, 64),
    ("prompt_token_ids", ("prompt_token_ids",), [HELLO] * 64, [HELLO] * 65, 64),
    ("prompt_logprobs", ("prompt_logprobs",), [None] * 64, [None] * 65, 64),
    (
        "logprobs",
        (*CHOICE, "logprobs", "content"),
        [{"token_id": 1, "logprob": -1.0}] * 64,
        [{"token_id": 1, "logprob": -1.0}] * 65,
        64,
    ),
    (
        "top_logprobs",
        (*ENTRY, "top_logprobs"),
        [{"token_id": 1, "logprob": -1.0}] * 5,
        [{"token_id": 1, "logprob": -1.0}] * 6,
        4,
    ),
    (
        "choices",
        ("choices",),
        [{"index": n, "token_ids": [1]} for n in range(3)],
        [{"index": n, "token_ids": [1]} for n in range(4)],
        3,
    ),
]


@pytest.mark.parametrize(
    ("field", "place", "most", "more", "bound"), BOUNDS, ids=[bound[0] for bound in BOUNDS]
)
@both
def test_lengths_and_counts_have_a_maximum(
    client: Client, path: str, field: str, place: Place, most: Any, more: Any, bound: int
) -> None:
    assert client.post(path, within(path, place, most)).status == 200
    error = bad_request(client, path, within(path, place, more))
    assert field in error["param"]
    assert str(bound) in error["message"]
    assert error["type"] == "BadRequestError"


def test_prompts_have_a_maximum_length(client: Client) -> None:
    for path, most, more in (
        (CHAT, [HELLO] * 64, [HELLO] * 65),
        (COMPLETIONS, [[HELLO] * 64], [[HELLO] * 65]),
    ):
        assert client.post(path, {**FULL[path], "prompt_token_ids": most}).status == 200
        error = bad_request(client, path, {**FULL[path], "prompt_token_ids": more})
        assert "prompt_token_ids" in error["param"]
        assert "64" in error["message"]


def test_the_number_of_responses_has_a_maximum(client: Client) -> None:
    responses = [generated([HELLO])] * 3
    assert client.completions({"generate_responses": responses}).status == 200
    error = bad_request(client, COMPLETIONS, {"generate_responses": [*responses, generated([HELLO])]})
    assert "generate_responses" in error["param"]
    assert "3" in error["message"]


def test_limits_are_checked_before_anything_is_decoded(client: Client) -> None:
    """The last choice is too long; the logprobs of the first one have an unknown id."""
    first = {"index": 0, "token_ids": [1], "logprobs": {"content": [{"token_id": SIZE, "logprob": -1.0}]}}
    choices = [first, {"index": 1, "token_ids": [1] * 65}]
    error = bad_request(client, CHAT, {"generate_response": {"request_id": "r", "choices": choices}})
    assert error["param"] == "generate_response.choices.1.token_ids"


@both
def test_the_number_of_stop_strings_has_a_maximum(client: Client, path: str) -> None:
    assert client.post(path, {**FULL[path], ASKED[path]: {"stop": ["a"] * 64}}).status == 200
    error = bad_request(client, path, {**FULL[path], ASKED[path]: {"stop": ["a"] * 65}})
    assert error["param"] == f"{ASKED[path]}.stop"


@pytest.mark.parametrize(
    ("place", "value", "param"),
    [
        ((*CHOICE, "token_ids"), [1, *["x"] * 9], "choices.0.token_ids.1"),
        (("choices",), [{}] * 9, "choices.0.index"),
        (("prompt_token_ids",), [None] * 9, "prompt_token_ids.0"),
        (("prompt_logprobs",), [None, *[1] * 9], "prompt_logprobs.1"),
        (("prompt_logprobs",), [{"1": {}, "x": {}, "y": {}, "z": {}}], "prompt_logprobs.0"),
        (("prompt_logprobs",), [{"1": 1, "2": 2, "3": 3}], "prompt_logprobs.0"),
    ],
)
@both
def test_of_many_wrong_items_the_first_is_named(
    client: Client, path: str, place: Place, value: Any, param: str
) -> None:
    """An error for each would take a hundred times the memory of the items."""
    error = bad_request(client, path, within(path, place, value))
    assert error["param"].endswith(param)
    assert error["message"].count(";") <= 1
    assert "more" not in error["message"]


@both
def test_the_length_of_stop_strings_has_a_maximum(client: Client, path: str) -> None:
    most = limits_module.MAX_STOP_CHARACTERS
    strings = ["a" * (most - 1), "b"]
    assert client.post(path, {**FULL[path], ASKED[path]: {"stop": strings}}).status == 200
    error = bad_request(client, path, {**FULL[path], ASKED[path]: {"stop": [*strings, "c"]}})
    assert (error["param"], str(most) in error["message"]) == (f"{ASKED[path]}.stop", True)
    assert client.post(path, within(path, (*CHOICE, "stop_reason"), "a" * most)).status == 200
    error = bad_request(client, path, within(path, (*CHOICE, "stop_reason"), "a" * (most + 1)))
    assert "stop_reason" in error["param"]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ([{"token_id": 1, "logprob": -1.0}, {"token_id": SIZE, "logprob": -1.0}], "1"),
        ([{"token_id": 1, "logprob": -1.0}, {"token": "token_id:-1", "logprob": -1.0}], "1"),
        ([{"token_id": 1, "logprob": -1.0}, {"logprob": -1.0}], "1"),
        (
            [
                {"token_id": 1, "logprob": -1.0},
                {"token_id": 1, "logprob": -1.0, "top_logprobs": [{"token_id": 1, "logprob": -1.0}] * 2},
                {
                    "token_id": 1,
                    "logprob": -1.0,
                    "top_logprobs": [{"token_id": 1, "logprob": -1.0}, {"token_id": SIZE, "logprob": -1.0}],
                },
            ],
            "2.top_logprobs.1",
        ),
        ([{"token": "a", "logprob": -1.0, "bytes": [256]}], "0.bytes.0"),
        ([{"token": "a", "logprob": -1.0, "bytes": [2**70]}], "0.bytes.0"),
    ],
)
@both
def test_an_error_names_the_path_of_the_entry(client: Client, path: str, content: Any, place: str) -> None:
    response = generated([1], logprobs={"content": content})
    name = "generate_response" if path == CHAT else "generate_responses"
    error = bad_request(client, path, {name: response if path == CHAT else [response]})
    within_name = name if path == CHAT else f"{name}.0"
    assert error["param"] == f"{within_name}.choices.0.logprobs.content.{place}"


def test_the_size_of_repeated_prompts_has_a_maximum(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each length is allowed, but three choices would repeat the prompt."""
    response = {**generated([1]), "choices": [{"index": n, "token_ids": [1]} for n in range(3)]}
    ids = {**response, "prompt_token_ids": [1] * 10}
    cases: tuple[tuple[dict[str, Any], dict[str, Any], int], ...] = (
        ({**response, "prompt_token_ids": [1] * 10}, {"return_token_ids": True}, 80),
        ({**response, "prompt_logprobs": [None] * 10}, {}, len("[" + "null," * 9 + "null]")),
        ({**response, "prompt_logprobs": [{}] * 10}, {}, len("[" + "{}," * 9 + "{}]")),
        ({**response, "prompt_logprobs": [{"1": {"x": "A" * 99}}]}, {}, len('[{"1":{"x":""}}]') + 99),
        ({**response, "prompt_token_ids": [65] * 10}, {"echo": True}, 10),
        (response, {"echo": True, "prompt": "A" * 99}, 99),
        (
            {**response, "prompt_logprobs": [None] * 10},
            {"echo": True, "prompt": "A"},
            1 + 2 * len("[" + "null," * 9 + "null]"),
        ),
    )
    for generate_response, asked, once in cases:
        body = {"generate_responses": [generate_response], "completion_request": asked}
        monkeypatch.setattr(limits_module, "MAX_REPEATED", 3 * once)
        assert client.completions(body).status == 200
        monkeypatch.setattr(limits_module, "MAX_REPEATED", 3 * once - 1)
        error = bad_request(client, COMPLETIONS, body)
        assert error["param"] == "generate_responses.0.choices"
    assert client.completions({"generate_responses": [ids]}).status == 200


@pytest.mark.parametrize("value", [2**31, 2**63 - 1, 2**63, 2**64 - 1])
@both
def test_a_very_long_prompt_is_counted_or_refused(client: Client, path: str, value: int) -> None:
    answer = client.post(path, {**FULL[path], "prompt_tokens": value if path == CHAT else [value]})
    if answer.status == 200:
        assert answer.json["usage"]["total_tokens"] == value + 3
    else:
        assert answer.status == 400
        assert "prompt_tokens" in answer.error["param"]
