"""Observations of requests to derender: what the application notes reaches the observer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import asdict

from derender.telemetry.observation import OTHER
from derender.telemetry.request_ids import REQUEST_ID
from tests.support.api_client import CHAT
from tests.support.qwen3 import END
from tests.support.qwen3_outputs import encode, generated

from .conftest import client

if TYPE_CHECKING:
    from derender.telemetry.observation import Observation
    from tests.support.api_client import Client

    from .conftest import Observed

COMPLETIONS: Final = "/v1/completions/derender"


def fields_of(observation: Observation) -> dict[str, Any]:
    """Return the fields of an observation that are not empty, without the time."""
    assert observation.duration_ms > 0
    fields = {**asdict(observation), **asdict(observation.answer), **asdict(observation.answer.tally)}
    for name in ("duration_ms", "answer", "tally"):
        del fields[name]
    return {name: value for name, value in fields.items() if value}


def test_a_complete_answer(api: Client, observed: Observed) -> None:
    entry = {"token_id": 9707, "logprob": -1.0, "top_logprobs": [{"token_id": 9707, "logprob": -1.0}] * 3}
    token_ids = encode("one")
    response = generated(token_ids, token_ids, logprobs={"content": [entry] * len(token_ids)})
    body = json.dumps({"generate_response": response, "prompt_tokens": 7, "chat_request": {"logprobs": True}})
    answer = api.send(CHAT, body.encode(), headers={"x-request-id": "mine"})
    assert fields_of(observed.only) == {
        "endpoint": CHAT,
        "method": "POST",
        "status": 200,
        "request_bytes": len(body),
        "response_bytes": len(answer.body),
        "request_id": "mine",
        "completion_id": "generate-1",
        "model": "Qwen3",
        "prompt_tokens": 7,
        "completion_tokens": 2 * len(token_ids),
        "choices": 2,
        "candidates": 2 * 3 * len(token_ids),
        "parsers": ("hermes", "qwen3"),
        "outcomes": {"text": 2},
    }


def test_compressed_bytes_are_counted(api: Client, observed: Observed) -> None:
    body = json.dumps({"generate_response": generated([9707] * 20_000 + [END]), "chat_request": {}})
    answer = api.send(CHAT, body.encode(), headers={"accept-encoding": "gzip"})
    assert len(answer.body) > 90_000
    assert observed.only.response_bytes < len(answer.body) / 10


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        (CHAT, b"{", 400, "InvalidRequest"),
        (CHAT, b"{}", 400, "InvalidRequest"),
        (CHAT, json.dumps({"generate_response": generated([])}).encode(), 400, "BadRequest"),
        (CHAT, json.dumps({"model": "x", "generate_response": generated([1])}).encode(), 404, "ModelNotFound"),
        (COMPLETIONS, b" " * (1 << 20) + b"{", 413, "RequestTooLarge"),
        ("/v1/nothing", b"", 404, "NotFound"),
        ("/v1/models", b"", 405, "MethodNotAllowed"),
    ],
)
def test_an_error_has_a_kind(
    api: Client, observed: Observed, path: str, body: bytes, status: int, error: str
) -> None:
    assert api.send(path, body).status == status
    told = observed.only
    assert (told.status, told.error, observed.answer.model) == (status, error, None)
    assert told.endpoint == (OTHER if path == "/v1/nothing" else path)


def test_an_unknown_encoding_has_a_kind(api: Client, observed: Observed) -> None:
    api.send(CHAT, b"{}", headers={"content-encoding": "br"})
    assert (observed.only.status, observed.only.error) == (415, "UnsupportedEncoding")


def test_an_internal_error_has_a_kind(api: Client, observed: Observed, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("quixotic")

    monkeypatch.setattr("derender.http.routes.answer", fail)
    assert api.chat({}).status == 500
    assert (observed.only.status, observed.only.error) == (500, "InternalError")


def test_other_routes_are_observed_too(api: Client, observed: Observed) -> None:
    for path in ("/v1/models", "/health", "/version", "/docs", "/openapi.json"):
        assert api.send(path, method="GET").status == 200
        assert (observed.all[-1].endpoint, observed.all[-1].method) == (path, "GET")


def test_facts_that_fail_do_not_break_the_answer(
    api: Client, observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("derender.http.routes.describe_answer", lambda _: 1 / 0)
    assert api.chat({"generate_response": generated(encode("one")), "chat_request": {}}).status == 200
    assert observed.all == []


def test_without_an_observer_there_are_no_facts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("derender.http.routes.describe_answer", lambda _: 1 / 0)
    answer = client(None).chat({"generate_response": generated(encode("one")), "chat_request": {}})
    assert answer.status == 200
    assert "x-request-id" in answer.headers
    assert caplog.records == []


def test_each_request_gets_an_id_of_its_own(api: Client) -> None:
    ids = {api.send(path, method="GET").headers["x-request-id"] for path in ["/health", "/nothing"] * 2}
    assert len(ids) == 4
    assert REQUEST_ID.get() is None
