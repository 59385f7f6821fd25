"""Events of API Gateway and function URLs, and the routes that they reach."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.api_client import CHAT
from tests.support.full_requests import FULL, PATHS, both

if TYPE_CHECKING:
    from tests.support.api_client import Client, EventKind


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
def test_an_event_without_a_body_is_refused(client: Client, kind: EventKind) -> None:
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


def test_models_health_and_version_are_served(client: Client) -> None:
    models = client.send("/v1/models", method="GET").json
    assert models["object"] == "list"
    assert [(model["id"], model["root"], model["max_model_len"]) for model in models["data"]] == [
        ("tiny", "tiny", 64),
        ("small", "tiny", 64),
    ]
    assert client.send("/health", method="GET").status == 200
    assert set(client.send("/version", method="GET").json) == {"version"}
