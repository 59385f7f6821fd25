"""Responses compressed with gzip, if the client accepts that (RFC 9110, "Accept-Encoding")."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["MIN_GZIP_BYTES", "CompressionMiddleware", "accepts_gzip", "compress"]

MIN_GZIP_BYTES: Final = 16 * 1024
"""Compress responses of at least this many bytes."""
_GZIP_LEVEL: Final = 1
"""Logprobs are repetitive JSON: higher levels cost several times as much and save another tenth of the size."""
_ACCEPT_ENCODING: Final = b"accept-encoding"
_REFUSED: Final = re.compile(r"q\s*=\s*0(\.0*)?")


def compress(response: Response, accept_encoding: str) -> Response:
    """Compress a response as the middleware does, which leaves it as it is then."""
    body = bytes(response.body)
    if len(body) < MIN_GZIP_BYTES or not accepts_gzip(accept_encoding):
        return response
    headers = {**response.headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}
    del headers["content-length"]
    return Response(gzip.compress(body, _GZIP_LEVEL, mtime=0), response.status_code, headers)


class CompressionMiddleware(GZipMiddleware):
    """Starlette's compression, for clients that accept gzip.

    Starlette only looks for the word `gzip` in the header, which `gzip;q=0` contains too. So it is given a
    header that contains the word if the client accepts gzip, and not otherwise.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        super().__init__(app, minimum_size=MIN_GZIP_BYTES, compresslevel=_GZIP_LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request (ASGI)."""
        if scope["type"] == "http":
            accepted = accepts_gzip(", ".join(Headers(scope=scope).getlist("accept-encoding")))
            others = [header for header in scope["headers"] if header[0].lower() != _ACCEPT_ENCODING]
            scope["headers"] = [*others, (_ACCEPT_ENCODING, b"gzip" if accepted else b"identity")]
        await super().__call__(scope, receive, send)


def accepts_gzip(header: str) -> bool:
    """Return whether a client accepts gzip.

    Args:
        header: Its `Accept-Encoding`; empty without one.
    """
    accepted: dict[str, bool] = {}
    for item in header.lower().split(","):
        coding, _, weight = item.partition(";")
        accepted[coding.strip()] = not _REFUSED.fullmatch(weight.strip())
    return accepted.get("gzip", accepted.get("x-gzip", accepted.get("*", False)))
