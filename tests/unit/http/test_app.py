"""The application: its operations, those added to it, and server-sent events."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import Request, Response

from derender import __version__
from derender.http.app import create_app
from derender.http.operation import Operation
from derender.http.sse import encode_event
from derender.models.model import Models
from derender.telemetry.observation import OTHER
from tests.support.api_client import CHAT, COMPLETIONS, Client, generated
from tests.support.vocabularies import B

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import FastAPI

    from derender.telemetry.observation import Observation


def test_health_and_version(client: Client) -> None:
    health = client.send("/health", method="GET")
    assert (health.status, health.body) == (200, b"")
    for method in ("GET", "POST"):
        ping = client.send("/ping", method=method)
        assert (ping.status, ping.body) == (200, b"")
    assert client.send("/version", method="GET").json == {"version": __version__}


def test_operations_can_be_added_with_what_they_need() -> None:
    opened: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        opened.append("opened")
        yield {"answer": "42"}
        opened.append("closed")

    async def handle(request: Request) -> Response:
        return Response(request.state.answer)

    extra = Operation(path="/a", method="GET", name="a", tag="T", summary="S", handle=handle)
    app = create_app(Models((), None), max_body_bytes=1, operations=[extra], lifespan=lifespan)
    sent: list[Any] = []

    async def serve() -> None:
        async with app.router.lifespan_context(app) as state:
            scope = {"type": "http", "path": "/a", "method": "GET", "headers": [], "query_string": b""}

            async def send(message: Any) -> None:
                sent.append(message)

            async def receive() -> Any:
                return {"type": "http.request", "body": b""}

            await app({**scope, "state": state}, receive, send)

    asyncio.run(serve())
    assert sent[-1]["body"] == b"42"
    assert opened == ["opened", "closed"]
    described = app.openapi()["paths"]["/a"]["get"]
    assert (described["operationId"], described["tags"], described["summary"]) == ("a", ["T"], "S")


def test_requests_are_observed_by_their_routes() -> None:
    observed: list[Observation] = []
    client = Client(create_app(Models((), None), max_body_bytes=1, observe=observed.append))
    paths = ["/v1/models", "/health", "/version", "/docs", "/openapi.json"]
    for path in paths:
        assert client.send(path, method="GET").status == 200
    assert client.send("/nothing", method="GET").status == 404
    assert [each.endpoint for each in observed] == [*paths, OTHER]
    assert all(each.request_id for each in observed)


def test_the_document_is_made_once() -> None:
    app = create_app(Models((), None), max_body_bytes=1)
    assert app.openapi() is app.openapi()


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_several_chunks_are_events_if_the_client_accepts_them(client: Client, path: str) -> None:
    def post(finish_reason: str | None, accept: str, *, several: bool = True) -> Any:
        chunk = generated([int(B.HELLO)], finish_reason=finish_reason)
        chunks: dict[str, object] = {"generate_chunks": [chunk]} if several else {"generate_chunk": chunk}
        body = json.dumps({"stream": True, **chunks}).encode()
        return client.send(path, body, headers={"accept": accept})

    for finish_reason in (None, "stop"):
        plain = post(finish_reason, "application/json")
        assert plain.json.keys() == {"chunks", "stream_state"}
        events = post(finish_reason, "text/event-stream, */*")
        assert events.headers["content-type"].startswith("text/event-stream")
        assert events.headers["cache-control"] == "no-store"
        *first, last, end = events.body.split(b"\n\n")
        assert len(first) == 1
        assert first[0].startswith(b'data: {"id":')
        assert end == b""
        assert last.startswith(b"data: [DONE]" if finish_reason else b"event: stream_state\ndata: {")
    one = post(None, "text/event-stream", several=False)
    assert one.json.keys() == {"chunk", "stream_state"}


def test_events_have_a_type_unless_they_are_messages() -> None:
    assert encode_event({"a": 1}) == b'data: {"a":1}\n\n'
    assert encode_event({"a": 1}, "state") == b'event: state\ndata: {"a":1}\n\n'
