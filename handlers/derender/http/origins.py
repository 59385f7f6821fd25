"""Requests of web pages to a server on this machine: only those of pages that may call.

A page of any origin can send requests to `localhost`, and needs no answer to do harm. If its name leads to this
machine (DNS rebinding), the browser takes it for a page of this server, but `Host` tells its name.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from derender.errors import ForeignOrigin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["LoopbackMiddleware", "is_loopback"]


class LoopbackMiddleware:
    """Refuses requests of pages that are neither this server's nor of an allowed origin."""

    def __init__(self, app: ASGIApp, *, allowed_origins: Sequence[str]) -> None:
        """Wrap an application.

        Args:
            app: The application.
            allowed_origins: Origins of the web pages that may call; `*` for all.
        """
        self.app = app
        self._origins = frozenset(allowed_origins)
        self._hosts = frozenset(_split(origin)[0] for origin in allowed_origins) - {""}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request (ASGI).

        Raises:
            ForeignOrigin: Another page sent it.
        """
        if scope["type"] == "http" and "*" not in self._origins:
            self._check(Headers(scope=scope))
        await self.app(scope, receive, send)

    def _check(self, headers: Headers) -> None:
        host, origin = headers.get("host", ""), headers.get("origin")
        name, _ = _split(f"//{host}")
        if host and not (is_loopback(name) or name in self._hosts):
            raise ForeignOrigin("the host is not this machine's; allow its origin with --allowed-origins")
        if origin is not None and origin not in self._origins and _split(origin)[1] != host:
            raise ForeignOrigin("the page's origin may not call; allow it with --allowed-origins")


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _split(url: str) -> tuple[str, str]:
    """Return the name of a URL's host, and the host with its port."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.hostname or "", parts.netloc
