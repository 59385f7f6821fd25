"""Request ids in requests and responses."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from derender.http.request_id import RequestIdMiddleware
from derender.telemetry.request_ids import REQUEST_ID

from .asgi import LAST, START, Scripted, call, scope_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send


def id_of(headers: Mapping[str, str] | None = None) -> str:
    """The id of a request, which is in the response and was there for the application."""
    seen: list[str | None] = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        seen.append(REQUEST_ID.get())
        await send({"type": "http.response.start", "status": 200})
        await send(LAST)

    start, _ = call(RequestIdMiddleware(app), scope_of(headers=headers))
    ((name, value),) = start["headers"]
    assert name == b"x-request-id"
    assert seen == [value.decode()]
    return str(value.decode())


def test_the_clients_id_is_kept() -> None:
    assert id_of({"x-request-id": "mine"}) == "mine"


@pytest.mark.parametrize("headers", [{}, {"x-request-id": "two words"}])
def test_another_request_gets_a_new_id(headers: Mapping[str, str]) -> None:
    first, second = id_of(headers), id_of(headers)
    assert first != second
    assert uuid.UUID(first).version == 4


def test_the_id_ends_with_the_request() -> None:
    id_of({"x-request-id": "mine"})
    with pytest.raises(ValueError, match="fault"):
        call(RequestIdMiddleware(Scripted(ValueError("fault"))), scope_of())
    assert REQUEST_ID.get() is None


def test_other_headers_stay() -> None:
    start = {**START, "headers": [(b"a", b"b")]}
    sent, _ = call(RequestIdMiddleware(Scripted(start, LAST)), scope_of())
    assert (b"a", b"b") in sent["headers"]


def test_other_scopes_pass() -> None:
    app = Scripted()
    call(RequestIdMiddleware(app), {"type": "lifespan"})
    assert app.scope == {"type": "lifespan"}
