"""Requests to upstreams, over HTTP."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx

from derender import __version__
from derender.errors import BadGateway, GatewayTimeout, UpstreamFailed, UpstreamLost, UpstreamUnreachable
from derender.http.sse import EVENT_STREAM
from derender.telemetry.request_ids import HEADER, REQUEST_ID

from .event_stream import EventReader
from .refusals import refusal_of_body

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from .upstreams import Relay, Upstream

__all__ = ["Ask", "answer_of", "events_of", "open_client"]

MAX_IDLE: Final = 100
"""Most connections that are kept for another request."""
IDLE_SECONDS: Final = 4
"""How long they are: uvicorn, which generate servers run on, closes them after five seconds."""
MAX_ERROR_BYTES: Final = 64 * 1024
"""Most bytes that are read of an answer that is no success."""


class Ask(NamedTuple):
    """What is asked of whom."""

    service: str
    """What a client is told that it is."""
    upstream: Upstream
    path: str
    body: bytes
    timeout: float
    """Seconds without a byte after which it is given up."""


@asynccontextmanager
async def open_client(relay: Relay) -> AsyncIterator[httpx.AsyncClient]:
    """The client that all requests to upstreams share.

    Neither proxies nor certificates of the environment are used, and no redirect is followed: an upstream is
    where the operator says that it is.
    """
    # They log URLs, and headers.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    async with httpx.AsyncClient(
        headers={"user-agent": f"derender/{__version__}"},
        # Only what reads and writes is waited for so long; there are as many connections as are needed.
        timeout=httpx.Timeout(relay.timeout, connect=relay.connect_timeout, pool=None),
        limits=httpx.Limits(
            max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=IDLE_SECONDS
        ),
        follow_redirects=False,
        trust_env=False,
    ) as client:
        yield client


async def answer_of(client: httpx.AsyncClient, ask: Ask, limit: int) -> bytes:
    """What an upstream answers, as one.

    Args:
        client: The HTTP client.
        ask: What is asked.
        limit: Most bytes of the answer.

    Raises:
        BadGateway: It can't be reached, fails, or says more.
        GatewayTimeout: It is silent for too long.
        UpstreamRefusal: It refuses the request for a reason that is the client's.
    """
    with _faults(ask):
        async with _asking(client, ask, "application/json") as response:
            content = await _content(response, limit)
            if content is None:
                raise BadGateway(f"{ask.service} answered with more than {limit} bytes")
            return content


async def events_of(client: httpx.AsyncClient, ask: Ask, limit: int) -> AsyncGenerator[bytes, None]:
    """The data of the events that an upstream answers with. To be closed.

    Args:
        client: The HTTP client.
        ask: What is asked.
        limit: Most bytes of an event.

    Raises:
        BadGateway: It can't be reached, fails, breaks off, or sends a larger event.
        GatewayTimeout: It is silent for too long.
        UpstreamRefusal: It refuses the request for a reason that is the client's.
    """
    reader = EventReader(limit)
    with _faults(ask):
        async with _asking(client, ask, EVENT_STREAM) as response:
            async for content in response.aiter_bytes():
                for data in reader.read(content):
                    yield data


@asynccontextmanager
async def _asking(client: httpx.AsyncClient, ask: Ask, accept: str) -> AsyncIterator[httpx.Response]:
    upstream = ask.upstream
    headers = [
        *upstream.headers,
        ("accept", accept),
        ("accept-encoding", "identity"),
        ("content-type", "application/json"),
    ]
    request_id = REQUEST_ID.get()
    if request_id is not None:
        headers.append((HEADER, request_id))
    # How long a connection may take to make is the client's.
    timeout = httpx.Timeout(ask.timeout, connect=client.timeout.connect, pool=None)
    url = upstream.url + ask.path
    async with client.stream("POST", url, content=ask.body, headers=headers, timeout=timeout) as response:
        if response.status_code != HTTPStatus.OK:
            refused = refusal_of_body(
                response.status_code,
                await _content(response, MAX_ERROR_BYTES) or b"",
                retry_after=response.headers.get("retry-after"),
                secrets=upstream.secrets,
            )
            raise refused or UpstreamFailed(f"{ask.service} answered with status {response.status_code}")
        yield response


async def _content(response: httpx.Response, limit: int) -> bytes | None:
    """The body, if it is no longer than the limit."""
    content = bytearray()
    async for more in response.aiter_bytes():
        content += more
        if len(content) > limit:
            return None
    return bytes(content)


@contextmanager
def _faults(ask: Ask) -> Iterator[None]:
    """What can go wrong with a request, as clients are told."""
    try:
        yield
    except httpx.TimeoutException as error:
        what = "could not be reached in time" if isinstance(error, httpx.ConnectTimeout) else "is silent"
        raise GatewayTimeout(f"{ask.service} {what}") from None
    except httpx.ConnectError:
        raise UpstreamUnreachable(f"{ask.service} can't be reached") from None
    except httpx.DecodingError:
        raise BadGateway(f"the answer of {ask.service} is not encoded as it says") from None
    except httpx.RequestError:
        raise UpstreamLost(f"the connection to {ask.service} was lost") from None
