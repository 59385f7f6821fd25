"""The relay and its upstreams in this process, without sockets: silence is a timeout at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
from examples.generate_server import Request

from derender.relay.upstream.client import UpstreamClient

from .relay_app import load_relay
from .relay_client import RelayClient
from .upstream_server import Upstream, hang, send_parts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.types import Receive, Scope, Send

    from derender.telemetry.observation import Observe

    from .upstream_server import ReceivedRequest, Reply, Step

__all__ = ["InProcessRelay", "UpstreamTransport"]


class UpstreamTransport(Upstream, httpx.AsyncBaseTransport):
    """Upstreams as a transport of httpx. None of them is called `gone`."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        if request.url.host == "gone":
            raise httpx.ConnectError("refused")
        content = await request.aread()
        received, reply = self.receive(
            Request(request.url.raw_path.decode(), dict(request.headers), content, ("in-process", 0))
        )
        for step in reply.before:
            await _take(step)
        headers = [("content-type", reply.content_type), *reply.headers]
        return httpx.Response(reply.status, headers=headers, stream=_Parts(reply, received))


class _Parts(httpx.AsyncByteStream):
    def __init__(self, reply: Reply, received: ReceivedRequest) -> None:
        parts = (part if isinstance(part, bytes) else _taken(part) for part in reply.parts)
        self._parts = send_parts(replace(reply, parts=parts), received)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._parts

    async def aclose(self) -> None:
        await self._parts.aclose()


def _taken(step: Step) -> Step:
    return lambda: _take(step)


async def _take(step: Step) -> None:
    """Do a step, and raise what httpx raises if it happens to a connection."""
    if step is hang:
        raise httpx.ReadTimeout("silence")
    try:
        await step()
    except ConnectionError:
        raise httpx.ReadError("lost") from None


class InProcessRelay(RelayClient):
    """The relay's application."""

    def __init__(
        self,
        environment: Mapping[str, str],
        upstream: UpstreamTransport,
        *,
        keep_alive: float = 15,
        max_body_bytes: int = 1 << 20,
        observe: Observe | None = None,
    ) -> None:
        app, relay = load_relay(
            environment, keep_alive=keep_alive, max_body_bytes=max_body_bytes, observe=observe
        )
        upstreams = UpstreamClient(relay, transport=upstream)

        async def app_with_state(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "state": {"upstream_client": upstreams}}, receive, send)

        self._transport = httpx.ASGITransport(app_with_state)
        self._runner = asyncio.Runner()

    def close(self) -> None:
        """Close the event loop."""
        self._runner.close()

    def request(
        self, method: str, path: str, content: bytes = b"", headers: Mapping[str, str] = {}
    ) -> httpx.Response:
        """Send a request, and return the complete response."""

        async def send() -> Any:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://relay") as client:
                return await client.request(method, path, content=content, headers=dict(headers))

        response: httpx.Response = self._runner.run(send())
        return response
