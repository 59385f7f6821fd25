"""The Lambda Web Adapter: it forwards events as HTTP requests, and describes the invocation in headers."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from starlette.datastructures import Headers

from derender.settings import SettingsError

from .invocation import begin_invocation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["WebAdapter", "read_port"]

_TRACE: Final = re.compile(r"\bRoot=(1-[0-9a-f]{8}-[0-9a-f]{24})\b")


class WebAdapter:
    """ASGI middleware that reads the invocation from the adapter's headers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI)."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            trace = _TRACE.search(headers.get("x-amzn-trace-id", ""))
            begin_invocation(
                _read_object(headers.get("x-amzn-lambda-context")).get("request_id"),
                request_context=_read_object(headers.get("x-amzn-request-context")),
                trace_id=trace and trace[1],
            )
        await self.app(scope, receive, send)


def read_port(environment: Mapping[str, str]) -> int:
    """Return the port that the adapter forwards to.

    Raises:
        SettingsError: The variable holds no port.
    """
    name = "AWS_LWA_PORT" if environment.get("AWS_LWA_PORT") else "PORT"
    text = environment.get(name) or "8080"
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 16:
        raise SettingsError(f"{name} must be a port from 1 to 65535, got {text[:100]!r}")
    return int(text)


def _read_object(text: str | None) -> dict[str, Any]:
    try:
        content = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
