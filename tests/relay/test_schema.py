"""The relay answers as its OpenAPI document says, whatever clients send and upstreams answer."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import pytest
import schemathesis
from schemathesis.core.result import Ok

from derender.models.model import Models
from derender.relay import RelaySettings, Upstream
from derender.relay.app import create_relay_app
from tests.support.generate_protocol import generate_request
from tests.support.openapi_fuzzing import FUZZED, JsonSession, check
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY
from tests.support.relay_traffic import CHUNKS, answer_all
from tests.support.upstream_server import GENERATE, Reply, answer, break_off, sse, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.upstream_server import ReceivedRequest, UpstreamServer

    from .conftest import RelayFactory

    Case = schemathesis.Case[Any]

ROUTES: Final = (CHAT, COMPLETIONS, CHAT + RELAY, COMPLETIONS + RELAY)
UPSTREAM: Final = Upstream("gpu", "http://localhost")
DOCUMENT: Final = create_relay_app(
    Models((), None), RelaySettings((UPSTREAM,), render=UPSTREAM), max_body_bytes=1
).openapi()
SCHEMA: Final = schemathesis.openapi.from_dict(DOCUMENT).include(path=list(ROUTES))

REFUSALS: Final = [
    *(answer({"error": {"message": "no"}}, status) for status in (400, 401, 404, 413, 422, 429, 500, 503)),
    Reply([b"<html>"], 400, "text/html"),
    answer({"choices": "none"}),
    Reply([sse(CHUNKS[0]), sse({"error": {"message": "no", "code": 400}})]),
    Reply([sse(CHUNKS[0]), break_off]),
]


@pytest.fixture(scope="module")
def url(make_relay: RelayFactory, upstream_server: UpstreamServer) -> Iterator[str]:
    """The URL of a relay whose upstream fails every other request."""
    refusals = cycle(REFUSALS)
    turn = cycle([True, False])

    def respond(received: ReceivedRequest) -> Reply:
        if received.path == GENERATE and next(turn):
            return next(refusals)
        return answer_all(received)

    before = upstream_server.respond
    upstream_server.respond = respond
    yield make_relay().url
    upstream_server.respond = before


@pytest.fixture(scope="module")
def session() -> Iterator[JsonSession]:
    with JsonSession("*/*") as session:
        yield session


@SCHEMA.parametrize()
@FUZZED
def test_every_answer_is_as_documented(case: Case, session: JsonSession, url: str) -> None:
    check(case, session, url)


@pytest.mark.parametrize("reply", [*REFUSALS, stream(CHUNKS)])
@pytest.mark.parametrize("path", [CHAT + RELAY, COMPLETIONS + RELAY])
def test_every_stream_is_as_documented(
    session: JsonSession,
    url: str,
    upstream_server: UpstreamServer,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    reply: Reply,
) -> None:
    monkeypatch.setattr(upstream_server, "respond", lambda _: reply)
    client: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    name = "chat_request" if path.startswith(CHAT) else "completion_request"
    case = SCHEMA[path]["POST"].Case(
        body={"generate_request": generate_request(), name: client}, media_type="application/json"
    )
    check(case, session, url)


def test_every_route_of_the_relay_is_tried() -> None:
    tried = [result.ok().path for result in SCHEMA.get_all_operations() if isinstance(result, Ok)]
    assert sorted(tried) == sorted(ROUTES)
