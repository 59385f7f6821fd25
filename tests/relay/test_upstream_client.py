"""The client of upstreams over HTTP: what is sent, and every way in which a connection fails."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from derender.errors import (
    BadGateway,
    DerenderError,
    GatewayTimeout,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamLost,
    UpstreamUnreachable,
)
from derender.relay import RelaySettings, Server, Upstream
from derender.relay.upstream.client import UpstreamClient
from tests.support.upstream_server import GENERATE, Reply, answer, break_off, hang, pause, sse, stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.upstream_server import UpstreamServer

pytestmark = pytest.mark.usefixtures("_clean_log")

LIMIT: Final = 1 << 20
BODY: Final = b' {"model": "m"} '


@pytest.fixture
def settings(upstream: UpstreamServer) -> RelaySettings:
    """Timeouts are short. What is called `gone` listens on no port."""
    gpu = Upstream("gpu", upstream.url, (("authorization", "Bearer secret-token"),))
    gone = Upstream("gone", "http://127.0.0.1:9")
    render = Server("render", gpu.url, gpu.headers)
    return RelaySettings((gpu, gone), render, timeout=0.2, generation_timeout=0.2, connect_timeout=1)


def run(settings: RelaySettings, use: Callable[[UpstreamClient], Awaitable[Any]]) -> Any:
    async def open_and_use() -> Any:
        async with UpstreamClient(settings) as client:
            return await use(client)

    return asyncio.run(open_and_use())


def generate(settings: RelaySettings, upstream: str = "gpu") -> bytes:
    server = settings.find_upstream(upstream, "any")
    content: bytes = run(settings, lambda client: client.generate(server, BODY, "m", LIMIT))
    return content


async def read_stream(client: UpstreamClient, upstream: Upstream, *, count: int = 1000) -> list[bytes]:
    """Read some events of a stream."""
    events: list[bytes] = []
    async with aclosing(client.stream(upstream, BODY, "m")) as stream:
        async for data in stream:
            events.append(data)
            if len(events) == count:
                break
    return events


def stream_all(settings: RelaySettings, upstream: str = "gpu") -> list[bytes]:
    server = settings.find_upstream(upstream, "any")
    events: list[bytes] = run(settings, lambda client: read_stream(client, server))
    return events


def test_a_request_is_posted_to_the_configured_url(
    settings: RelaySettings, upstream: UpstreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    upstream.replies(answer({}), stream([1, 2]), answer([]))
    assert generate(settings) == b"{}"
    assert stream_all(settings) == [b"1", b"2", b"[DONE]"]
    render = settings.find_render(settings.upstreams[0])
    assert run(settings, lambda client: client.render(render, "/render", BODY, "m", LIMIT)) == b"[]"
    assert [received.path for received in upstream.requests] == [GENERATE, GENERATE, "/render"]
    for received, accept in zip(
        upstream.requests, ("application/json", "text/event-stream", "application/json"), strict=True
    ):
        assert received.content == BODY
        expected = {
            "authorization": "Bearer secret-token",
            "content-type": "application/json",
            "accept": accept,
            "accept-encoding": "identity",
        }
        assert expected.items() <= received.headers.items()


def test_connections_are_reused(settings: RelaySettings, upstream: UpstreamServer) -> None:
    upstream.replies(answer({}), stream([1, 2]), answer({}, 400), stream([3]))

    async def use(client: UpstreamClient) -> None:
        server = settings.upstreams[0]
        await client.generate(server, BODY, "m", LIMIT)
        await read_stream(client, server)
        with pytest.raises(DerenderError):
            await client.generate(server, BODY, "m", LIMIT)
        await read_stream(client, server)

    run(settings, use)
    assert len({received.request.client for received in upstream.requests}) == 1


def test_a_stream_that_is_not_read_to_its_end_is_closed(
    settings: RelaySettings, upstream: UpstreamServer
) -> None:
    upstream.replies(Reply([sse(1), sse(2), hang]))
    server = settings.upstreams[0]
    assert run(settings, lambda client: read_stream(client, server, count=1)) == [b"1"]
    assert upstream.requests[0].cancelled.wait(10)


# --- faults ---------------------------------------------------------------------------------------------------

FAULTS: Final[dict[str, tuple[Reply, type[DerenderError], str]]] = {
    "lost before the status": (Reply([], before=[break_off]), UpstreamLost, "was lost"),
    "lost after the status": (Reply([break_off]), UpstreamLost, "was lost"),
    "lost in the body": (Reply([b'data: {"choices"', break_off]), UpstreamLost, "was lost"),
    "silent before the status": (Reply([], before=[hang]), GatewayTimeout, "was silent for 0.2 seconds"),
    "silent after the status": (Reply([hang]), GatewayTimeout, "was silent for 0.2 seconds"),
    "silent in the body": (Reply([b'data: {"choices"', hang]), GatewayTimeout, "was silent for 0.2 seconds"),
    "another encoding": (
        Reply([b"not compressed"], headers=[("content-encoding", "gzip")]),
        BadGateway,
        "has a Content-Encoding, which was not asked for",
    ),
    "compressed twice": (
        Reply([gzip.compress(gzip.compress(bytes(10_000_000)))], headers=[("content-encoding", "gzip, gzip")]),
        BadGateway,
        "has a Content-Encoding, which was not asked for",
    ),
    "an error that is compressed": (
        Reply([gzip.compress(bytes(10_000_000))], 500, headers=[("content-encoding", "br")]),
        BadGateway,
        "has a Content-Encoding, which was not asked for",
    ),
    "a redirect": (answer({}, 307, [("location", "http://127.0.0.1:9")]), UpstreamFailed, "with status 307"),
    "an error": (Reply([b"x" * LIMIT], 500), UpstreamFailed, "responded with status 500"),
    "a refusal": (answer({"message": "slow down"}, 429), UpstreamBusy, "slow down"),
}


@pytest.mark.parametrize("read", [generate, stream_all], ids=["complete", "streamed"])
@pytest.mark.parametrize(("reply", "error", "message"), FAULTS.values(), ids=FAULTS)
def test_a_failed_request(
    settings: RelaySettings,
    upstream: UpstreamServer,
    read: Callable[[RelaySettings], object],
    reply: Reply,
    error: type[DerenderError],
    message: str,
) -> None:
    upstream.replies(reply)
    with pytest.raises(error, match=message):
        read(settings)


@pytest.mark.parametrize("read", [generate, stream_all], ids=["complete", "streamed"])
def test_an_unreachable_upstream(settings: RelaySettings, read: Callable[[RelaySettings, str], object]) -> None:
    with pytest.raises(UpstreamUnreachable, match="could not connect to the generate server"):
        read(settings, "gone")


def test_a_connection_that_takes_too_long(settings: RelaySettings) -> None:
    def time_out(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("")

    client = UpstreamClient(settings, transport=httpx.MockTransport(time_out))
    render = settings.find_render(settings.upstreams[0])
    with pytest.raises(GatewayTimeout, match="could not connect to the render service within 1 seconds"):
        asyncio.run(client.render(render, "/render", BODY, "m", LIMIT))


@pytest.mark.parametrize("parts", [[b" " * (LIMIT + 1)], [b" " * (LIMIT // 4)] * 5])
def test_a_response_that_is_too_large(
    settings: RelaySettings, upstream: UpstreamServer, parts: list[bytes]
) -> None:
    upstream.replies(Reply(parts))
    with pytest.raises(BadGateway, match=f"is larger than {LIMIT} bytes"):
        generate(settings)


def test_an_event_that_is_too_large(settings: RelaySettings, upstream: UpstreamServer) -> None:
    upstream.replies(Reply([b"data: ", b"x" * 100]))
    with pytest.raises(BadGateway, match="an event larger than 64 bytes"):
        stream_all(replace(settings, max_event_bytes=64))


def test_a_slow_stream_is_not_given_up(settings: RelaySettings, upstream: UpstreamServer) -> None:
    silences = [part for _ in range(4) for part in (pause(0.08), b": ping\n\n")]
    upstream.replies(Reply([*silences, sse(1)]))
    assert stream_all(settings) == [b"1"]


def test_a_complete_generation_may_take_longer(settings: RelaySettings, upstream: UpstreamServer) -> None:
    patient = replace(settings, timeout=0.1, generation_timeout=5)
    upstream.replies(replace(answer({}), before=[pause(0.3)]))
    assert generate(patient) == b"{}"
    with pytest.raises(GatewayTimeout):
        stream_all(patient)
