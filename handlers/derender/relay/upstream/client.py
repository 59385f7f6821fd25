"""The HTTP client of generate servers and the render service."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import httpx

from derender import __version__
from derender.errors import BadGateway, GatewayTimeout, UpstreamFailed, UpstreamLost, UpstreamUnreachable
from derender.http.sse import EVENT_STREAM
from derender.telemetry.request_ids import HEADER, REQUEST_ID

from .errors import refusal_of_body
from .sse import EventDecoder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from ..settings import RelaySettings, Upstream

__all__ = ["UpstreamClient"]

GENERATE: Final = "/inference/v1/generate"
MAX_IDLE_CONNECTIONS: Final = 100
KEEPALIVE_EXPIRY: Final = 4
"""Seconds to keep an idle connection. uvicorn, which generate servers run on, closes it after five."""
MAX_ERROR_BYTES: Final = 64 * 1024
"""Maximum bytes to read of an unsuccessful response."""


class _Call(NamedTuple):
    """A request to an upstream."""

    service: str
    """What messages call the upstream."""
    upstream: Upstream
    path: str
    body: bytes
    timeout: float
    """Seconds without a byte after which to give up."""


class UpstreamClient:
    """Posts JSON to upstreams. An application shares one client, and its connections, between all requests.

    The client ignores proxies and certificates of the environment and follows no redirect: requests go only to
    the URLs that the operator configured.
    """

    def __init__(self, settings: RelaySettings, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Open no connection yet.

        Args:
            settings: The upstreams and timeouts.
            transport: Sends the requests in place of httpx's own transport.
        """
        # httpx and httpcore log URLs and headers at lower levels.
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._settings = settings
        self._http = httpx.AsyncClient(
            headers={"user-agent": f"derender/{__version__}"},
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=MAX_IDLE_CONNECTIONS,
                keepalive_expiry=KEEPALIVE_EXPIRY,
            ),
            follow_redirects=False,
            trust_env=False,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        """Open the client."""
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def render(self, path: str, body: bytes, limit: int) -> bytes:
        """Return the render service's response to a client's request.

        Args:
            path: The path of the render endpoint.
            body: The client's request.
            limit: Maximum bytes of the response.

        Raises:
            BadGateway: The service can't be reached, fails, or responds with more bytes.
            GatewayTimeout: The service is silent for too long.
            UpstreamRefusal: The service refuses the request for a reason that the client may see.
        """
        render = self._settings.render
        assert render is not None
        return await self._read(_Call("the render service", render, path, body, self._settings.timeout), limit)

    async def generate(self, upstream: Upstream, body: bytes, limit: int) -> bytes:
        """Return a generate server's response to a request that does not stream.

        Args:
            upstream: The generate server.
            body: The generate request.
            limit: Maximum bytes of the response.

        Raises:
            DerenderError: As `render` does.
        """
        # Such a server sends nothing until it has generated everything.
        timeout = self._settings.generation_timeout
        return await self._read(_Call("the generate server", upstream, GENERATE, body, timeout), limit)

    async def stream(
        self, upstream: Upstream, body: bytes, *, limit: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the data of each event of a generate server's stream. Close the generator after use.

        Args:
            upstream: The generate server.
            body: The generate request.
            limit: Maximum bytes of the response; None for any number.

        Raises:
            DerenderError: As `render` does, or when an event is too large.
        """
        call = _Call("the generate server", upstream, GENERATE, body, self._settings.timeout)
        decoder = EventDecoder(self._settings.max_event_bytes)
        async with self._post(call, EVENT_STREAM) as response:
            received = 0
            async for content in response.aiter_bytes():
                received += len(content)
                if limit is not None and received > limit:
                    raise _too_large(call, limit)
                for data in decoder.decode(content):
                    yield data

    async def _read(self, call: _Call, limit: int) -> bytes:
        async with self._post(call, "application/json") as response:
            content = await _content(response, limit)
            if content is None:
                raise _too_large(call, limit)
            return content

    @asynccontextmanager
    async def _post(self, call: _Call, accept: str) -> AsyncIterator[httpx.Response]:
        """Send a request and yield the successful response. Anything else becomes an error of derender."""
        service, upstream, path, body, timeout = call
        connect_timeout = self._settings.connect_timeout
        headers = [
            *upstream.headers,
            ("accept", accept),
            ("accept-encoding", "identity"),
            ("content-type", "application/json"),
        ]
        request_id = REQUEST_ID.get()
        if request_id is not None:
            headers.append((HEADER, request_id))
        try:
            async with self._http.stream(
                "POST",
                upstream.url + path,
                content=body,
                headers=headers,
                timeout=httpx.Timeout(timeout, connect=connect_timeout, pool=None),
            ) as response:
                if response.status_code != HTTPStatus.OK:
                    raise await _error(call, response)
                yield response
        except httpx.ConnectTimeout:
            raise GatewayTimeout(f"could not connect to {service} within {connect_timeout:g} seconds") from None
        except httpx.TimeoutException:
            raise GatewayTimeout(f"{service} was silent for {timeout:g} seconds") from None
        except httpx.ConnectError:
            raise UpstreamUnreachable(f"could not connect to {service}") from None
        except httpx.DecodingError:
            raise BadGateway(f"the response of {service} does not match its Content-Encoding") from None
        except httpx.RequestError:
            raise UpstreamLost(f"the connection to {service} was lost") from None


def _too_large(call: _Call, limit: int) -> BadGateway:
    return BadGateway(
        f"the response of {call.service} is larger than {limit} bytes; generate less, or raise "
        "DERENDER_MAX_BODY_BYTES"
    )


async def _error(call: _Call, response: httpx.Response) -> Exception:
    refused = refusal_of_body(
        response.status_code,
        await _content(response, MAX_ERROR_BYTES) or b"",
        retry_after=response.headers.get("retry-after"),
        secrets=call.upstream.secrets,
    )
    hint = ""
    if response.status_code == HTTPStatus.FORBIDDEN and call.path == GENERATE:
        hint = "; vLLM takes generate requests only if it is started with --tokens-only or --enable-scale-out"
    return refused or UpstreamFailed(f"{call.service} responded with status {response.status_code}{hint}")


async def _content(response: httpx.Response, limit: int) -> bytes | None:
    """Read the body, or return None if it is larger than the limit."""
    content = bytearray()
    async for more in response.aiter_bytes():
        content += more
        if len(content) > limit:
            return None
    return bytes(content)
