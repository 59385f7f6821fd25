"""Streamed responses: headers, comments in silences, and what follows a slow or gone client."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from derender.errors import UpstreamLost
from derender.relay.responses import EventStreamResponse
from tests.support.generate_protocol import chunks_of
from tests.support.qwen3 import qwen3
from tests.support.relay_client import CHAT, RELAY, events_of, text_of
from tests.support.relay_requests import relay_chat
from tests.support.upstream_server import DONE, Reply, answer, pause, sse, stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Message

    from derender.relay.responses import Emit
    from tests.support.relay_in_process import InProcessRelay, UpstreamTransport

    from .conftest import RelayFactory


def test_a_stream_is_neither_stored_nor_buffered_nor_compressed(
    relay: InProcessRelay, upstream: UpstreamTransport
) -> None:
    upstream.replies(stream(chunks_of(qwen3().encode("word " * 300))))
    response = relay.post(CHAT + RELAY, relay_chat(), {"accept-encoding": "gzip"})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in response.headers
    assert len(response.content) > 50_000


# --- silence --------------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(make_relay: RelayFactory) -> InProcessRelay:
    """A relay that sends a comment after a short silence."""
    return make_relay(keep_alive=0.02, tool_call_parser="none", reasoning_parser="none")


def test_comments_fill_silences(impatient: InProcessRelay, upstream: UpstreamTransport) -> None:
    first, *others = map(sse, chunks_of(qwen3().encode("one two")))
    upstream.replies(Reply([pause(0.1), first, pause(0.1), *others, DONE], before=[pause(0.1)]))
    content = impatient.post(CHAT + RELAY, relay_chat()).content
    assert content.startswith(b": keep-alive\n\n")
    before, _, after = content.partition(b"data: ")
    assert before.count(b": keep-alive\n\n") >= 3
    assert after.count(b": keep-alive\n\n") >= 1
    *events, done = events_of(content)
    assert (text_of(events), done) == ("one two", "[DONE]")


@pytest.mark.parametrize(
    ("path", "body"), [(CHAT + RELAY, relay_chat()), (CHAT, {"messages": [], "stream": True})]
)
def test_a_fault_after_a_comment_is_an_event(
    impatient: InProcessRelay, upstream: UpstreamTransport, path: str, body: dict[str, Any]
) -> None:
    upstream.replies(replace(answer({}, 500), before=[pause(0.1)]))
    response = impatient.post(path, body)
    assert response.status_code == 200
    (last,) = events_of(response.content)
    assert last["error"]["type"] == "BadGatewayError"


# --- slow clients ---------------------------------------------------------------------------------------------


class Source:
    """Produces events as a test says."""

    def __init__(self, produce: Callable[[Emit], Awaitable[None]]) -> None:
        self._produce = produce

    async def produce(self, emit: Emit) -> None:
        await self._produce(emit)

    def cut(self) -> list[bytes]:
        return [b"cut"]


async def respond(source: Source, send: Callable[[Message], Awaitable[None]], *, connected: float = 60) -> None:
    async def receive() -> Message:
        await asyncio.sleep(connected)
        return {"type": "http.disconnect"}

    response = EventStreamResponse(source, keep_alive=60)
    await response({"type": "http"}, receive, send)


def test_the_source_does_not_run_ahead_of_the_client() -> None:
    produced, sent = 0, 0

    async def produce(emit: Emit) -> None:
        nonlocal produced
        for _ in range(50):
            produced += 1
            await emit(b"x")

    async def send(message: Message) -> None:
        nonlocal sent
        await asyncio.sleep(0)
        sent += len(message.get("body", b""))
        assert produced - sent <= 2

    asyncio.run(respond(Source(produce), send))
    assert (produced, sent) == (50, 50)


def test_a_fault_loses_no_event_and_repeats_none() -> None:
    """Also if it cancels other producers while their events wait for a slow client."""
    bodies = []

    async def produce(emit: Emit) -> None:
        async def produce_one(name: bytes) -> None:
            await emit(name)
            await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            for name in (b"a", b"b", b"c"):
                tasks.start_soon(produce_one, name)
            await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        raise UpstreamLost("lost")

    async def send(message: Message) -> None:
        await asyncio.sleep(0.02)
        bodies.append(message.get("body", b""))

    asyncio.run(respond(Source(produce), send))
    start, *events, cut, error, end = bodies
    assert (start, cut, end) == (b"", b"cut", b"")
    assert sorted(events) == [b"a", b"b", b"c"]
    assert b"UpstreamLost" not in error
    assert b'"BadGatewayError"' in error


def test_a_client_that_disconnects_cancels_the_source() -> None:
    cancelled = False

    async def produce(emit: Emit) -> None:
        nonlocal cancelled
        await emit(b"x")
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled = True
            raise

    async def send(_: Message) -> None:
        pass

    asyncio.run(respond(Source(produce), send, connected=0.01))
    assert cancelled
