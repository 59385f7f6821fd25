"""A server on this machine: which pages may call it."""

from __future__ import annotations

import asyncio

import pytest

from derender.http.app import create_app
from derender.http.origins import LoopbackMiddleware, is_loopback
from derender.models.model import Models
from tests.support.api_client import CHAT, Client

PAGE = "https://app.example"


def status_of(host: str, origin: str | None = None, *allowed: str) -> int:
    client = Client(create_app(Models((), None), max_body_bytes=10, allowed_origins=allowed, loopback=True))
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    return client.send("/version", method="GET", headers=headers).status


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST", "a.localhost", ""])
def test_clients_on_this_machine_may_call(host: str) -> None:
    assert status_of(host) == 200
    assert status_of(host, f"http://{host}") == 200


@pytest.mark.parametrize(
    "host", ["evil.example:8000", "localhost.evil.example", "10.0.0.1", "127.0.0.1.evil.example", "[", "@", "é"]
)
def test_another_name_that_leads_here_is_refused(host: str) -> None:
    assert status_of(host) == 403
    assert status_of(host, f"http://{host}") == 403


@pytest.mark.parametrize(
    "origin", [PAGE, "http://127.0.0.1:3000", "http://localhost:8000", "null", "", "http://[", "127.0.0.1:8000"]
)
def test_other_pages_may_not_call(origin: str) -> None:
    assert status_of("127.0.0.1:8000", origin) == 403


def test_pages_of_allowed_origins_may_call() -> None:
    assert status_of("127.0.0.1:8000", PAGE, PAGE) == 200
    assert status_of("127.0.0.1:8000", "https://other.example", PAGE) == 403
    assert status_of("127.0.0.1:8000", "null", "null") == 200
    # Behind a proxy on this machine.
    assert status_of("app.example", PAGE, PAGE) == 200
    assert status_of("evil.example", PAGE, PAGE) == 403
    assert status_of("evil.example", "https://evil.example", "*") == 200


def test_a_refusal_is_in_the_error_envelope() -> None:
    client = Client(create_app(Models((), None), max_body_bytes=10, loopback=True))
    answer = client.send(CHAT, b"{}", headers={"host": "localhost", "origin": PAGE})
    assert answer.status == 403
    assert answer.json["error"]["type"] == "ForbiddenError"


def test_addresses_may_have_brackets() -> None:
    passed: list[object] = []

    async def app(scope: object, _receive: object, _send: object) -> None:
        passed.append(scope)

    host = b"[::1]:8000"
    scope = {"type": "http", "headers": [(b"host", host), (b"origin", b"http://" + host)]}
    asyncio.run(LoopbackMiddleware(app, allowed_origins=())(scope, None, None))  # type: ignore[arg-type]
    assert passed == [scope]


def test_servers_that_others_reach_do_not_ask() -> None:
    client = Client(create_app(Models((), None), max_body_bytes=10))
    headers = {"host": "derender.example", "origin": PAGE}
    assert client.send("/version", method="GET", headers=headers).status == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("127.9.9.9", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_addresses_of_this_machine(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
