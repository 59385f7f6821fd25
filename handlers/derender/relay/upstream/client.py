"""The HTTP client of generate servers and the render service."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import httpx
import msgspec

from derender import __version__
from derender.errors import BadGateway, GatewayTimeout, UpstreamFailed, UpstreamLost, UpstreamUnreachable
from derender.http.sse import EVENT_STREAM
from derender.telemetry.request_ids import HEADER, REQUEST_ID

from .errors import refusal_of_body
from .model_names import Listing, ModelNames, read_listing
from .sse import EventDecoder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from ..servers import Server, Upstream
    from ..settings import RelaySettings

__all__ = ["UpstreamClient"]

GENERATE: Final = "/inference/v1/generate"
MODELS: Final = "/v1/models"
JSON: Final = "application/json"
MAX_IDLE_CONNECTIONS: Final = 100
KEEPALIVE_EXPIRY: Final = 4
"""Seconds to keep an idle connection. uvicorn, which generate servers run on, closes it after five."""
MAX_ERROR_BYTES: Final = 64 * 1024
"""Maximum bytes to read of an unsuccessful response."""
MAX_LISTING_BYTES: Final = 1024 * 1024
"""Maximum bytes of a list of models."""
_NOT_THERE: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
"""Statuses of servers that don't list models."""
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Call(NamedTuple):
    """A request to a server."""

    server: Server
    path: str
    timeout: float
    """Seconds without a byte after which to give up."""
    body: bytes | None = None
    """The body to post; None to get."""
    model: str = ""
    """What the client calls the model."""


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
        self._model_names = ModelNames(self._list_models)

    async def __aenter__(self) -> Self:
        """Open the client."""
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def render(self, render: Server, path: str, body: bytes, model: str, limit: int) -> bytes:
        """Return the render service's response to a client's request.

        Args:
            render: The render service.
            path: The path of the render endpoint.
            body: The client's request. The service gets it with its own name of the model.
            model: What the client calls the model.
            limit: Maximum bytes of the response.

        Raises:
            BadGateway: The service can't be reached, fails, or responds with more bytes.
            GatewayTimeout: The service is silent for too long.
            UpstreamRefusal: The service refuses the request for a reason that the client may see.
        """
        return await self._read(_Call(render, path, self._settings.timeout, body, model), limit)

    async def generate(self, upstream: Upstream, body: bytes, model: str, limit: int) -> bytes:
        """Return a generate server's response to a request that does not stream.

        Args:
            upstream: The generate server.
            body: The generate request. The server gets it with its own name of the model.
            model: What the client calls the model.
            limit: Maximum bytes of the response.

        Raises:
            DerenderError: As `render` does.
        """
        # Such a server sends nothing until it has generated everything.
        timeout = self._settings.generation_timeout
        return await self._read(_Call(upstream, GENERATE, timeout, body, model), limit)

    async def stream(
        self, upstream: Upstream, body: bytes, model: str, *, limit: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the data of each event of a generate server's stream. Close the generator after use.

        Args:
            upstream: The generate server.
            body: The generate request. The server gets it with its own name of the model.
            model: What the client calls the model.
            limit: Maximum bytes of the response; None for any number.

        Raises:
            DerenderError: As `render` does, or when an event is too large.
        """
        call = _Call(upstream, GENERATE, self._settings.timeout, body, model)
        decoder = EventDecoder(self._settings.max_event_bytes)
        async with self._post(call, EVENT_STREAM) as response:
            received = 0
            async for content in response.aiter_raw():
                received += len(content)
                if limit is not None and received > limit:
                    raise _too_large(call, limit)
                for data in decoder.decode(content):
                    yield data

    async def _read(self, call: _Call, limit: int) -> bytes:
        async with self._post(call, JSON) as response:
            content = await _content(response, limit)
            if content is None:
                raise _too_large(call, limit)
            return content

    async def _list_models(self, server: Server) -> Listing:
        call = _Call(server, MODELS, self._settings.timeout)
        async with self._send(call, JSON) as response:
            if response.status_code in _NOT_THERE:
                return Listing()
            await _check_status(call, response)
            return read_listing(server.title, await _content(response, MAX_LISTING_BYTES) or b"")

    @asynccontextmanager
    async def _post(self, call: _Call, accept: str) -> AsyncIterator[httpx.Response]:
        """Send a request with the server's own name of the model, and yield the successful response.

        Anything else becomes an error of derender. If the server does not know the name, it is asked once more.
        """
        server, names = call.server, self._model_names
        name = await names.find(server, call.model)
        async with self._send(_with_model(call, name), accept) as response:
            again = name
            if response.status_code == HTTPStatus.NOT_FOUND:
                again = await names.find_again(server, call.model, name)
            if again == name:
                await _check_status(call, response)
                yield response
                return
        async with self._send(_with_model(call, again), accept) as response:
            await _check_status(call, response)
            yield response

    @asynccontextmanager
    async def _send(self, call: _Call, accept: str) -> AsyncIterator[httpx.Response]:
        """Send a request and yield the response. A failure becomes an error of derender."""
        service, timeout, connect_timeout = call.server.title, call.timeout, self._settings.connect_timeout
        headers = [
            *call.server.headers,
            ("accept", accept),
            ("accept-encoding", "identity"),
            ("content-type", "application/json"),
        ]
        request_id = REQUEST_ID.get()
        if request_id is not None:
            headers.append((HEADER, request_id))
        try:
            async with self._http.stream(
                "GET" if call.body is None else "POST",
                call.server.url + call.path,
                content=call.body,
                headers=headers,
                timeout=httpx.Timeout(timeout, connect=connect_timeout, pool=None),
            ) as response:
                _check_encoding(service, response)
                yield response
        except httpx.ConnectTimeout:
            raise GatewayTimeout(f"could not connect to {service} within {connect_timeout:g} seconds") from None
        except httpx.TimeoutException:
            raise GatewayTimeout(f"{service} was silent for {timeout:g} seconds") from None
        except httpx.ConnectError:
            raise UpstreamUnreachable(f"could not connect to {service}") from None
        except httpx.RequestError:
            raise UpstreamLost(f"the connection to {service} was lost") from None


def _check_encoding(service: str, response: httpx.Response) -> None:
    """Refuse a response that is compressed, although the relay asks for none: it might have any size."""
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise BadGateway(f"the response of {service} has a Content-Encoding, which was not asked for")


def _too_large(call: _Call, limit: int) -> BadGateway:
    return BadGateway(
        f"the response of {call.server.title} is larger than {limit} bytes; generate less, or raise "
        "DERENDER_MAX_BODY_BYTES"
    )


def _with_model(call: _Call, name: str | None) -> _Call:
    """Return a call with the name of the model in its body, which is otherwise unchanged, byte for byte."""
    assert call.body is not None
    if name is None:
        return call
    fields, named = _FIELDS.decode(call.body), msgspec.Raw(msgspec.json.encode(name))
    if fields.get("model") == named:
        return call
    return call._replace(body=msgspec.json.encode({**fields, "model": named}))


async def _check_status(call: _Call, response: httpx.Response) -> None:
    """Raise an error unless the response is successful."""
    if response.status_code == HTTPStatus.OK:
        return
    refused = refusal_of_body(
        response.status_code,
        await _content(response, MAX_ERROR_BYTES) or b"",
        retry_after=response.headers.get("retry-after"),
        secrets=call.server.secrets,
    )
    if refused is not None:
        raise refused
    status = f"with status {response.status_code}"
    if call.path == MODELS:
        raise UpstreamFailed(f"{call.server.title} responded to {MODELS} {status}; set its served_model_name")
    raise UpstreamFailed(f"{call.server.title} responded {status}{_hint(response.status_code, call.path)}")


def _hint(status: int, path: str) -> str:
    if status == HTTPStatus.FORBIDDEN and path == GENERATE:
        return "; vLLM takes generate requests only if it is started with --tokens-only or --enable-scale-out"
    if status == HTTPStatus.NOT_FOUND:
        return "; check its URL, and its served_model_name if there is one"
    return ""


async def _content(response: httpx.Response, limit: int) -> bytes | None:
    """Read the body, or return None if it is larger than the limit."""
    content = bytearray()
    async for more in response.aiter_raw():
        content += more
        if len(content) > limit:
            return None
    return bytes(content)
