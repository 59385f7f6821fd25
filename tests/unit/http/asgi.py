"""ASGI applications and servers that do what a test says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["DISCONNECT", "LAST", "MORE", "REQUEST", "START", "Scripted", "call", "scope_of"]

START: Final[Message] = {"type": "http.response.start", "status": 200, "headers": []}
MORE: Final[Message] = {"type": "http.response.body", "body": b"abc", "more_body": True}
LAST: Final[Message] = {"type": "http.response.body", "body": b"de"}
REQUEST: Final[Message] = {"type": "http.request", "body": b"request"}
DISCONNECT: Final[Message] = {"type": "http.disconnect"}


class Scripted:
    """An application that receives some messages, then sends messages and raises exceptions."""

    def __init__(self, *steps: Message | Exception, receives: int = 0) -> None:
        self.scope: Mapping[str, Any] = {}
        self._steps, self._receives = steps, receives

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Follow the script (ASGI)."""
        self.scope = scope
        for _ in range(self._receives):
            await receive()
        for step in self._steps:
            if isinstance(step, Exception):
                raise step
            await send(step)


def scope_of(path: str = "/a", headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The scope of a GET request."""
    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return {"type": "http", "path": path, "method": "GET", "headers": raw}


def call(app: ASGIApp, scope: Scope, *received: Message) -> list[Message]:
    """Call an application.

    Args:
        app: The application.
        scope: The scope.
        received: Messages that the application can receive.

    Returns:
        The messages that it sends.
    """
    messages, sent = iter(received), []

    async def receive() -> Message:
        return next(messages)

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(_await(app, scope, receive, send))
    return sent


async def _await(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)
