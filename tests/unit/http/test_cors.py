"""CORS: which web pages may call from a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from derender.http.app import create_app
from derender.models.model import Models
from tests.support.api_client import CHAT, Client

if TYPE_CHECKING:
    from derender.telemetry.observation import Observation

PAGE: Final = "https://app.example"
PREFLIGHT: Final = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type",
}


def client_of(*origins: str, observed: list[Observation] | None = None) -> Client:
    observe = None if observed is None else observed.append
    return Client(create_app(Models((), None), max_body_bytes=10, allowed_origins=origins, observe=observe))


@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/nothing"])
def test_preflight_requests_of_allowed_pages_are_answered(path: str) -> None:
    client = client_of("https://other.example", PAGE)
    answer = client.send(path, method="OPTIONS", headers={"origin": PAGE, **PREFLIGHT})
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert set(answer.headers["access-control-allow-methods"].split(", ")) == {"GET", "POST"}
    assert answer.headers["access-control-allow-headers"] == "authorization,content-type"
    assert answer.headers["access-control-max-age"] == "3600"
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/nothing", 404), ("/v1/models", 200)])
def test_allowed_pages_may_read_answers_and_errors(path: str, status: int) -> None:
    answer = client_of(PAGE).send(path, method="GET", headers={"origin": PAGE})
    assert answer.status == status
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["access-control-expose-headers"] == "retry-after, x-request-id"


def test_allowed_pages_may_read_refusals() -> None:
    client = client_of(PAGE)
    for body, status in ((b'{"generate_response": {"choices": []}}', 413), (b"{}", 400)):
        answer = client.send(CHAT, body, headers={"origin": PAGE})
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (status, PAGE)


def test_other_pages_may_not() -> None:
    client = client_of("https://other.example")
    preflight = client.send(CHAT, method="OPTIONS", headers={"origin": PAGE, **PREFLIGHT})
    plain = client.send("/health", method="GET", headers={"origin": PAGE})
    assert (preflight.status, plain.status) == (400, 200)
    for answer in (preflight, plain):
        assert "access-control-allow-origin" not in answer.headers


def test_all_pages_may_be_allowed() -> None:
    client = client_of("*")
    for headers in ({"origin": PAGE, **PREFLIGHT}, {"origin": PAGE}):
        method = "OPTIONS" if len(headers) > 1 else "GET"
        answer = client.send("/health", method=method, headers=headers)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")


def test_no_page_is_allowed_by_default() -> None:
    preflight = client_of().send(CHAT, method="OPTIONS", headers={"origin": PAGE, **PREFLIGHT})
    assert preflight.status == 405
    assert "access-control-allow-origin" not in preflight.headers


def test_preflight_requests_are_observed() -> None:
    observed: list[Observation] = []
    answer = client_of(PAGE, observed=observed).send(
        CHAT, method="OPTIONS", headers={"origin": PAGE, **PREFLIGHT}
    )
    assert answer.headers["x-request-id"]
    assert [(each.endpoint, each.method, each.status) for each in observed] == [(CHAT, "OPTIONS", 200)]
