"""Request ids: every request has one, and every response carries it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

from derender.telemetry.request_ids import HEADER, REQUEST_ID, choose_request_id

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["RequestIdMiddleware"]


class RequestIdMiddleware:
    """Gives each request an id (`derender.telemetry.request_ids`) and sends it in the response's header."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request (ASGI)."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = choose_request_id(Headers(scope=scope).get(HEADER))
        token = REQUEST_ID.set(request_id)
        try:
            await self.app(scope, receive, partial(self._send, send, request_id))
        finally:
            REQUEST_ID.reset(token)

    async def _send(self, send: Send, request_id: str, message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            MutableHeaders(scope=message)[HEADER] = request_id
        await send(message)
