"""Answers compressed with gzip, where the client accepts that (RFC 9110, "Accept-Encoding")."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["GZIP_FROM", "accepts_gzip", "compress"]

GZIP_FROM: Final = 16 * 1024
"""Responses from this many bytes on are compressed."""
GZIP_LEVEL: Final = 1
"""JSON of logprobs is repetitive: higher levels cost several times as much for a tenth of the size."""
_ACCEPT_ENCODING: Final = b"accept-encoding"
_REFUSED: Final = re.compile(r"q\s*=\s*0(\.0*)?")


def compress(app: ASGIApp) -> ASGIApp:
    """An application whose answers are compressed."""
    compressing = GZipMiddleware(app, minimum_size=GZIP_FROM, compresslevel=GZIP_LEVEL)

    async def choosing(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            # The middleware looks for the word alone, which is there in `gzip;q=0` too.
            accepted = accepts_gzip(", ".join(Headers(scope=scope).getlist("accept-encoding")))
            others = [header for header in scope["headers"] if header[0].lower() != _ACCEPT_ENCODING]
            scope["headers"] = [*others, (_ACCEPT_ENCODING, b"gzip" if accepted else b"identity")]
        await compressing(scope, receive, send)

    return choosing


def accepts_gzip(header: str) -> bool:
    """Whether a client accepts gzip.

    Args:
        header: Its `Accept-Encoding`; empty where it sent none.
    """
    accepted: dict[str, bool] = {}
    for item in header.lower().split(","):
        coding, _, weight = item.partition(";")
        accepted[coding.strip()] = not _REFUSED.fullmatch(weight.strip())
    return accepted.get("gzip", accepted.get("x-gzip", accepted.get("*", False)))
