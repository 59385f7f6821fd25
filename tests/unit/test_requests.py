"""Requests through the Lambda function: what is accepted, and what each mistake is answered."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender.answers import chat as chat_module
from derender.protocol import limits as limits_module
from tests.support.api_client import CHAT, COMPLETIONS, generated
from tests.support.json_mutations import at, deleted, mutated, places, replaced
from tests.support.vocabularies import B

if TYPE_CHECKING:
    from tests.support.api_client import Client, EventKind
    from tests.support.json_mutations import Place

HELLO, WORLD, BANG, EOS, SIZE = int(B.HELLO), int(B.WORLD), int(B.BANG), int(B.EOS), int(B.SIZE)
PATHS: Final = (CHAT, COMPLETIONS)
both = pytest.mark.parametrize("path", PATHS)

RESPONSE: Final[dict[str, Any]] = {
    "request_id": "gen-1",
    "model": "of-the-engine",
    "created": 1,
    "usage": {"prompt_tokens": 3},
    "choices": [
        {
            "index": 0,
            "token_ids": [HELLO, WORLD, EOS],
            "finish_reason": "stop",
            "stop_reason": None,
            "logprobs": {
                "content": [
                    {
                        "token_id": HELLO,
                        "logprob": -0.5,
                        "rank": 1,
                        "top_logprobs": [{"token_id": HELLO, "logprob": -0.5, "rank": 1}],
                    },
                    {
                        "token": f"token_id:{WORLD}",
                        "logprob": -0.5,
                        "bytes": [1],
                        "top_logprobs": [{"token": "given", "logprob": -0.5, "bytes": None}],
                    },
                ]
            },
            "routed_experts": "abc",
            "weight_versions": [1],
        }
    ],
    "prompt_token_ids": [HELLO, BANG],
    "prompt_logprobs": [None, {str(BANG): {"logprob": -1.0, "rank": 1, "decoded_token": None}}],
    "kv_transfer_params": {"a": [1]},
    "ec_transfer_params": None,
    "metrics": {"b": 1.5},
    "output_mode": "tokens",
}
CLIENT: Final[dict[str, Any]] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "hi"}],
    "skip_special_tokens": True,
    "spaces_between_special_tokens": True,
    "stop": ["END"],
    "stop_token_ids": [5],
    "include_stop_str_in_output": False,
    "ignore_eos": False,
    "min_tokens": 1,
    "logprob_token_ids": [7],
    "return_token_ids": True,
}
FULL: Final[dict[str, dict[str, Any]]] = {
    CHAT: {
        "stream": False,
        "model": "tiny",
        "generate_response": RESPONSE,
        "prompt_tokens": 2,
        "prompt_token_ids": [HELLO],
        "chat_request": {**CLIENT, "logprobs": True, "top_logprobs": 2},
    },
    COMPLETIONS: {
        "stream": False,
        "model": "tiny",
        "generate_responses": [RESPONSE],
        "prompt_tokens": [2],
        "prompt_token_ids": [[HELLO]],
        "completion_request": {**CLIENT, "logprobs": 2},
    },
}
"""A request with every field."""

GENERATED: Final[dict[str, Place]] = {CHAT: ("generate_response",), COMPLETIONS: ("generate_responses", 0)}
ASKED: Final[dict[str, str]] = {CHAT: "chat_request", COMPLETIONS: "completion_request"}
CHOICE: Final[Place] = ("choices", 0)
ENTRY: Final[Place] = (*CHOICE, "logprobs", "content", 0)


def within(path: str, place: Place, value: Any) -> dict[str, Any]:
    """The full request with another value at a place of its generate response."""
    body: dict[str, Any] = replaced(FULL[path], (*GENERATED[path], *place), value)
    return body


def bad_request(client: Client, path: str, body: Any) -> dict[str, Any]:
    """The error of a request that has to be a 400."""
    answer = client.post(path, body)
    assert answer.status == 400, answer.body
    assert answer.headers["content-type"] == "application/json"
    error: dict[str, Any] = answer.error
    assert error["type"] in ("BadRequestError", "Bad Request")
    return error


# --- what is answered -----------------------------------------------------------------------------------------


def test_a_chat_completion_in_full(client: Client) -> None:
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


def test_a_text_completion_in_full(client: Client) -> None:
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


def test_a_request_of_the_least_fields(client: Client) -> None:
    response = {"request_id": "r", "choices": [{"index": 3, "token_ids": [HELLO]}]}
    body = client.chat({"generate_response": response}).json
    assert (body["id"], body["model"], body["usage"]["total_tokens"]) == ("r", "tiny", 1)
    assert (body["choices"][0]["index"], body["choices"][0]["message"]["content"]) == (3, "Hello")
    assert body["choices"][0]["token_ids"] is body["prompt_token_ids"] is None
    body = client.completions({"generate_responses": [response]}).json
    assert (body["id"], body["choices"][0]["index"], body["choices"][0]["text"]) == ("r", 0, "Hello")


def test_choices_are_numbered_on_across_completions(client: Client) -> None:
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
def test_transfer_parameters_are_kept_where_all_agree(
    client: Client, name: str, first: Any, second: Any, kept: Any
) -> None:
    responses = [{**generated([HELLO]), name: value} for value in (first, second)]
    assert client.completions({"generate_responses": responses}).json[name] == kept


def test_every_completion_continues_its_own_prompt(client: Client) -> None:
    infinity = generated([0x9E, BANG])
    own = {**infinity, "prompt_token_ids": [0xE2, 0x88]}
    body = {
        "generate_responses": [infinity, own, own],
        "prompt_token_ids": [[HELLO, 0xE2, 0x88], None, [HELLO]],
    }
    texts = [choice["text"] for choice in client.completions(body).json["choices"]]
    assert texts == ["∞!", "∞!", "\ufffd!"]


def test_the_requests_prompt_outweighs_the_responses(client: Client) -> None:
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
def test_every_name_of_the_model_is_known(client: Client, path: str, name: str | None) -> None:
    assert client.post(path, {**FULL[path], "model": name}).json["model"] == (name or "tiny")


# --- events ---------------------------------------------------------------------------------------------------

KINDS: Final[tuple[EventKind, ...]] = ("http", "rest", "url")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoded", [False, True])
@both
def test_every_kind_of_event_is_answered(client: Client, path: str, kind: EventKind, encoded: bool) -> None:
    body = json.dumps({**FULL[path], "comment": "größe ∞"}, ensure_ascii=False).encode()
    answer = client.send(path, body, kind=kind, encoded=encoded)
    assert answer.status == 200
    expected = client.post(path, FULL[path]).json
    assert {**answer.json, "created": 0} == {**expected, "created": 0}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_event_may_lack_a_body(client: Client, kind: EventKind) -> None:
    answer = client.send(CHAT, None, kind=kind)
    assert answer.status == 400
    assert answer.error["param"] == "body"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/chat/completions", "/v1/chat/completions/derender/x", "/nope"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_not_found(client: Client, kind: EventKind, path: str, method: str) -> None:
    answer = client.send(path, b"{}", method=method, kind=kind)
    assert answer.status == 404
    assert answer.error["type"] == "NotFoundError"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        *((method, path) for method in ("GET", "PUT", "DELETE", "PATCH") for path in PATHS),
        ("POST", "/v1/models"),
        ("POST", "/health"),
        ("POST", "/version"),
    ],
)
def test_a_wrong_method_is_not_allowed(client: Client, kind: EventKind, method: str, path: str) -> None:
    answer = client.send(path, b"{}", method=method, kind=kind)
    assert answer.status == 405
    assert answer.error["type"] == "MethodNotAllowedError"
    assert answer.headers["allow"] == ("POST" if path in PATHS else "GET")


def test_models_health_and_version(client: Client) -> None:
    models = client.send("/v1/models", method="GET").json
    assert models["object"] == "list"
    assert [(model["id"], model["root"], model["max_model_len"]) for model in models["data"]] == [
        ("tiny", "tiny", 64),
        ("small", "tiny", 64),
    ]
    assert client.send("/health", method="GET").status == 200
    assert set(client.send("/version", method="GET").json) == {"version"}


# --- bodies that are no request -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b" \n", id="blank"),
        pytest.param(b"{", id="cut short"),
        pytest.param(b"{}{}", id="two objects"),
        pytest.param(b"{'a': 1}", id="single quotes"),
        pytest.param(b'{"a": 1,}', id="a trailing comma"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"true", id="true"),
        pytest.param(b"5", id="a number"),
        pytest.param(b'"text"', id="a string"),
        pytest.param(b"\xff\xfe{\x00}\x00", id="UTF-16"),
        pytest.param(b'\xef\xbb\xbf{"a": 1}', id="a byte order mark"),
        pytest.param(b'{"a": NaN}', id="NaN"),
        pytest.param(b'{"a": Infinity}', id="Infinity"),
        pytest.param(b'{"a": -Infinity}', id="-Infinity"),
        pytest.param(b"[" * 50_000, id="deep"),
        pytest.param(b'{"a":' * 10_000, id="deep objects"),
        pytest.param(b"a=1&b=2", id="a form"),
        pytest.param(b"\0" * 100, id="zeros"),
    ],
)
@both
def test_what_is_no_json_object_is_a_bad_request(client: Client, path: str, body: bytes) -> None:
    answer = client.send(path, body)
    assert answer.status == 400
    assert answer.error["param"] == "body"
    assert answer.error["type"] == "Bad Request"


def spliced(path: str, place: Place, text: str | bytes) -> bytes:
    """The full request with JSON text, well formed or not, at a place."""
    new = text if isinstance(text, bytes) else text.encode()
    return json.dumps(replaced(FULL[path], place, "@@")).encode().replace(b'"@@"', new, 1)


@pytest.mark.parametrize(
    "text", [b'"\xff"', b'"a\xc3"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xc0\x80"']
)
@both
def test_a_string_of_no_utf_8_is_a_bad_request(client: Client, path: str, text: bytes) -> None:
    for place in (("request_id",), (*CHOICE, "stop_reason"), ("kv_transfer_params",), (*ENTRY, "token")):
        answer = client.send(path, spliced(path, (*GENERATED[path], *place), text))
        assert answer.status == 400, place
        assert answer.error["param"] == "body"
    assert client.send(path, spliced(path, (*GENERATED[path], "unknown"), text)).status in (200, 400)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "NaN",
            "Infinity",
            "-Infinity",
            "1e400",
            "-1e400",
            "1" * 400,
            "-" + "1" * 400,
            "1" * 20_000,
            "0x10",
            "01",
            "+1",
        ),
        *(str(2**63), str(2**64 - 1), str(2**64), str(-(2**63)), str(-(2**63) - 1), "1.0", "1e2", "-0", "-0.0"),
    ],
)
@both
def test_numbers_of_any_kind_are_refused_or_answered(client: Client, path: str, text: str) -> None:
    """Everywhere: what is answered is JSON, and what is refused is refused in the envelope."""
    for place in places(FULL[path]):
        answer = client.send(path, spliced(path, place, text))
        if answer.status != 200:
            assert answer.status == 400, (place, answer.body)
            assert answer.error
        else:
            json.loads(answer.body, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    "text", ['"\\ud800"', '"\\udc00\\ud800"', '"a\\ud83d"', '"\\u0000"', '{"\\ud800": 1}', '"\\ud83d\\ude00"']
)
@both
def test_strings_of_any_kind_are_refused_or_answered(client: Client, path: str, text: str) -> None:
    for place in places(FULL[path]):
        answer = client.send(path, spliced(path, place, text))
        if answer.status != 200:
            assert answer.status in (400, 404), (place, answer.body)
            assert answer.error
        else:
            answer.body.decode()
            assert answer.json


DEEP: Final = [150, 300, 900, 1500, 5000, 8000]


def nested(depth: int, kind: str) -> str:
    return "[" * depth + "]" * depth if kind == "lists" else '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize("kind", ["lists", "objects"])
@pytest.mark.parametrize("depth", DEEP)
@both
def test_deep_json_is_refused_or_answered_wherever_it_is(
    client: Client, path: str, depth: int, kind: str
) -> None:
    text = nested(depth, kind)
    for place in [*places(FULL[path]), ("unknown",), (*GENERATED[path], "unknown"), (ASKED[path], "unknown")]:
        answer = client.send(path, spliced(path, place, text))
        if answer.status != 200:
            assert answer.status == 400, (place, answer.body)
            assert answer.error


@pytest.mark.parametrize("name", ["kv_transfer_params", "ec_transfer_params", "metrics"])
@both
def test_what_is_carried_through_may_nest_but_not_too_deeply(client: Client, path: str, name: str) -> None:
    place = (*GENERATED[path], name)
    answer = client.send(path, spliced(path, place, nested(20, "lists")))
    assert answer.status == 200
    assert answer.json[name] == json.loads(nested(20, "lists"))
    answer = client.send(path, spliced(path, place, nested(200, "lists")))
    assert answer.status == 400
    assert name in answer.error["param"]
    assert "deep" in answer.error["message"]


@pytest.mark.parametrize(
    "value",
    [0, -1, 2**63 - 1, 2**64 - 1, -(2**63), 1.5, 1e300, True, None, "", "∞\x00\u2028", [], {}, {"": [{}]}],
)
@pytest.mark.parametrize("name", ["kv_transfer_params", "ec_transfer_params", "metrics"])
@both
def test_what_is_carried_through_is_unchanged(client: Client, path: str, name: str, value: Any) -> None:
    answer = client.post(path, within(path, (name,), {"value": value}))
    assert answer.status == 200
    assert answer.json[name] == {"value": value}
    assert client.post(path, within(path, (name,), value)).json[name] == value


# --- ids ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [[], None])
@both
def test_empty_ids_are_refused_naming_the_choice(client: Client, path: str, value: object) -> None:
    choices = [{"index": 0, "token_ids": [HELLO]}, {"index": 7, "token_ids": value}]
    error = bad_request(client, path, within(path, ("choices",), choices))
    assert "choice 7" in error["message"]
    assert "token_ids" in error["message"]
    assert error["type"] == "BadRequestError"
    assert "token_ids" in error["param"]


@both
def test_missing_ids_are_refused_naming_the_choice(client: Client, path: str) -> None:
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
def test_ids_outside_the_vocabulary_are_refused_naming_the_id(
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
def test_an_entry_without_a_name_is_refused(client: Client, path: str, place: Place) -> None:
    error = bad_request(client, path, within(path, place, {"logprob": -0.5}))
    assert "token_id" in error["message"]
    assert "logprobs" in error["param"]


@pytest.mark.parametrize(
    "name", [str(SIZE), "-1", str(2**64), "9" * 30, "9" * 5000, "x", "", "1.0", "٣", " 1", "1_0"]
)
@both
def test_prompt_logprobs_of_no_id_are_refused_or_passed_on(client: Client, path: str, name: str) -> None:
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


# --- bounds ---------------------------------------------------------------------------------------------------

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
def test_lengths_are_bounded(
    client: Client, path: str, field: str, place: Place, most: Any, more: Any, bound: int
) -> None:
    assert client.post(path, within(path, place, most)).status == 200
    error = bad_request(client, path, within(path, place, more))
    assert field in error["param"]
    assert str(bound) in error["message"]
    assert error["type"] == "BadRequestError"


def test_prompts_of_the_request_are_bounded(client: Client) -> None:
    for path, most, more in (
        (CHAT, [HELLO] * 64, [HELLO] * 65),
        (COMPLETIONS, [[HELLO] * 64], [[HELLO] * 65]),
    ):
        assert client.post(path, {**FULL[path], "prompt_token_ids": most}).status == 200
        error = bad_request(client, path, {**FULL[path], "prompt_token_ids": more})
        assert "prompt_token_ids" in error["param"]
        assert "64" in error["message"]


def test_responses_are_bounded(client: Client) -> None:
    responses = [generated([HELLO])] * 3
    assert client.completions({"generate_responses": responses}).status == 200
    error = bad_request(client, COMPLETIONS, {"generate_responses": [*responses, generated([HELLO])]})
    assert "generate_responses" in error["param"]
    assert "3" in error["message"]


def test_bounds_are_checked_before_anything_is_decoded(client: Client) -> None:
    """The last choice is too long, the first one has an id of another vocabulary in its logprobs."""
    first = {"index": 0, "token_ids": [1], "logprobs": {"content": [{"token_id": SIZE, "logprob": -1.0}]}}
    choices = [first, {"index": 1, "token_ids": [1] * 65}]
    error = bad_request(client, CHAT, {"generate_response": {"request_id": "r", "choices": choices}})
    assert error["param"] == "generate_response.choices.1.token_ids"


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
def test_one_value_for_each_response(client: Client, name: str, value: Any) -> None:
    error = bad_request(client, COMPLETIONS, {**FULL[COMPLETIONS], name: value})
    assert error["param"] == name
    assert f"({len(value)})" in error["message"]
    assert "(1)" in error["message"]


def test_no_response_is_refused(client: Client) -> None:
    error = bad_request(client, COMPLETIONS, {"generate_responses": []})
    assert error["param"] == "generate_responses"
    assert error["type"] == "BadRequestError"
    bad_request(client, COMPLETIONS, {"generate_responses": [], "prompt_tokens": []})


# --- single fields --------------------------------------------------------------------------------------------


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
def test_only_tokens_can_be_derendered(client: Client, path: str, value: object) -> None:
    error = bad_request(client, path, within(path, ("output_mode",), value))
    assert "output_mode" in error["param"]
    assert "tokens" in error["message"]


@pytest.mark.parametrize("value", ["false", 1, None, [], {}])
@both
def test_whether_it_streams_is_said_as_a_boolean(client: Client, path: str, value: object) -> None:
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
"""Place in a generate response → what it may be besides the value it has in `RESPONSE`."""
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
def test_a_wrong_type_in_the_clients_request_is_named(client: Client, path: str, name: str) -> None:
    types = {
        **CLIENT_TYPES,
        "logprobs": {"true", "null"} if path == CHAT else {"number", "negative", "null"},
        "top_logprobs": {"number", "negative", "null"} if path == CHAT else set(A),
    }
    check_types(client, path, (ASKED[path], name), types[name])


@pytest.mark.parametrize(("path", "name"), [(path, name) for path in PATHS for name in TOP_TYPES[path]])
def test_a_wrong_type_at_the_top_is_named(client: Client, path: str, name: str) -> None:
    check_types(client, path, (name,), TOP_TYPES[path][name])


def test_no_type_but_a_list_of_responses_is_accepted(client: Client) -> None:
    for kind, value in A.items():
        error = bad_request(client, COMPLETIONS, {"generate_responses": value})
        assert "generate_responses" in error["param"], kind


@pytest.mark.parametrize("name", [*CLIENT_TYPES, "logprobs", "top_logprobs"])
@both
def test_null_in_the_clients_request_is_as_if_unset(client: Client, path: str, name: str) -> None:
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


@both
def test_very_many_stop_strings_are_refused(client: Client, path: str) -> None:
    assert client.post(path, {**FULL[path], ASKED[path]: {"stop": ["a"] * 64}}).status == 200
    error = bad_request(client, path, {**FULL[path], ASKED[path]: {"stop": ["a"] * 65}})
    assert error["param"] == f"{ASKED[path]}.stop"


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
def test_an_error_names_the_entry(client: Client, path: str, content: Any, place: str) -> None:
    response = generated([1], logprobs={"content": content})
    name = "generate_response" if path == CHAT else "generate_responses"
    error = bad_request(client, path, {name: response if path == CHAT else [response]})
    within_name = name if path == CHAT else f"{name}.0"
    assert error["param"] == f"{within_name}.choices.0.logprobs.content.{place}"


def test_a_prompt_is_not_repeated_without_bound(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each bound holds, but their product does not: three choices would each repeat the prompt."""
    response = {**generated([1]), "choices": [{"index": n, "token_ids": [1]} for n in range(3)]}
    ids = {**response, "prompt_token_ids": [1] * 10}
    cases: tuple[tuple[dict[str, Any], dict[str, Any], int], ...] = (
        ({**response, "prompt_token_ids": [1] * 10}, {"return_token_ids": True}, 80),
        ({**response, "prompt_logprobs": [None] * 10}, {}, len("[" + "null," * 9 + "null]")),
        ({**response, "prompt_logprobs": [{}] * 10}, {}, len("[" + "{}," * 9 + "{}]")),
        ({**response, "prompt_logprobs": [{"1": {"x": "A" * 99}}]}, {}, len('[{"1":{"x":""}}]') + 99),
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


def test_very_long_prompts_together_are_counted_or_refused(client: Client) -> None:
    answer = client.completions(
        {"generate_responses": [generated([HELLO])] * 2, "prompt_tokens": [2**63 - 1] * 2}
    )
    if answer.status == 200:
        assert answer.json["usage"]["prompt_tokens"] == 2**64 - 2
    else:
        assert answer.status == 400
        assert "prompt_tokens" in answer.error["param"]


# --- unknown fields -------------------------------------------------------------------------------------------


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
def test_what_is_not_read_of_the_clients_request_may_be_anything(
    client: Client, path: str, name: str, value: object
) -> None:
    assert client.post(path, {**FULL[path], ASKED[path]: {name: value}}).status == 200


# --- any request ----------------------------------------------------------------------------------------------


@settings(max_examples=400)
@given(path=st.sampled_from(PATHS), data=st.data())
def test_no_change_of_a_request_is_the_functions_fault(client: Client, path: str, data: st.DataObject) -> None:
    answer = client.post(path, data.draw(mutated(FULL[path])))
    assert answer.status in (200, 400, 404), answer.body
    if answer.status != 200:
        assert answer.error["param"] is None or "\n" not in answer.error["message"]
    else:
        assert answer.json["choices"] is not None


@given(
    path=st.sampled_from(PATHS), place=st.integers(0, 10**6), new=st.binary(max_size=3), gone=st.integers(0, 3)
)
def test_no_change_of_the_bytes_is_the_functions_fault(
    client: Client, path: str, place: int, new: bytes, gone: int
) -> None:
    body = json.dumps(FULL[path]).encode()
    place %= len(body)
    answer = client.send(path, body[:place] + new + body[place + gone :])
    assert answer.status in (200, 400, 404), answer.body
    assert answer.json


# --- logs -----------------------------------------------------------------------------------------------------

CONTENT: Final = "xyzzy-generated-content"


def bodies_with_content() -> list[bytes]:
    """Requests of every fate that hold content in ids, texts and names."""
    bodies: list[Any] = [
        {"generate_response": generated([HELLO], logprobs={"content": [{"token": CONTENT, "logprob": -1}]})},
        {"generate_response": generated([HELLO], stop_reason=CONTENT), "chat_request": {"stop": [CONTENT]}},
        {"generate_response": generated([HELLO], finish_reason={CONTENT: CONTENT})},
        {"generate_response": generated(CONTENT)},
        {"generate_response": {CONTENT: CONTENT}},
        {
            "generate_response": generated(
                [HELLO], logprobs={"content": [{"token": [CONTENT], "logprob": CONTENT}]}
            )
        },
        {"generate_response": {**generated([HELLO]), "prompt_logprobs": [{"1": CONTENT}]}},
        {"generate_response": {**generated([HELLO]), "output_mode": CONTENT}},
        {"chat_request": {"messages": [{"content": CONTENT}], "min_tokens": CONTENT}},
        {"generate_response": generated([HELLO]), "stream": CONTENT},
    ]
    return [*(json.dumps(body).encode() for body in bodies), CONTENT.encode(), b'{"a": "' + CONTENT.encode()]


def test_neither_logs_nor_errors_hold_content(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for body in bodies_with_content():
            answer = client.send(CHAT, body)
            assert answer.status in (200, 400)
            if answer.status == 400:
                assert CONTENT not in answer.error["message"]
    assert CONTENT not in caplog.text
    assert "Hello" not in caplog.text


def test_a_fault_is_logged_without_content(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(CONTENT)

    monkeypatch.setattr(chat_module, "decode_choices", fail)
    with caplog.at_level(logging.DEBUG):
        answer = client.chat(FULL[CHAT])
    assert answer.status == 500
    assert answer.error["message"] == "internal error"
    assert answer.error["type"] == "InternalServerError"
    assert CONTENT not in caplog.text
    assert CONTENT not in answer.body.decode()
    assert all(record.exc_info is None for record in caplog.records)
    (fault,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert fault.name == "derender"
    assert "RuntimeError" in fault.getMessage()
    assert "test_requests.py" in fault.getMessage()
