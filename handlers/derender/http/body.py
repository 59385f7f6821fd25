"""Request bodies: bounded, and decompressed."""

from __future__ import annotations

import re
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

from derender.errors import UnsupportedEncoding, UnsupportedType
from derender.protocol.gunzip import body_too_large, gunzip

from .workers import INLINE

if TYPE_CHECKING:
    from starlette.requests import Request

    from .workers import Run

__all__ = ["read_body", "read_json"]

_JSON: Final = re.compile(r"application/([\w.+-]+\+)?json\s*(;.*)?", re.IGNORECASE | re.DOTALL)
"""The media type of JSON (RFC 8259), with parameters or none."""


async def read_body(request: Request, limit: int, run: Run = INLINE) -> bytes:
    """Read the body of a request and decompress it.

    Args:
        request: The request.
        limit: Maximum size in bytes, both as sent and decompressed.
        run: Runs the decompression.

    Raises:
        RequestTooLarge: The body is larger.
        UnsupportedEncoding: `Content-Encoding` is neither gzip nor identity.
        InvalidRequest: `Content-Encoding` is gzip, and the body is not.
    """
    chunks: list[bytes] = []
    size = 0
    async with aclosing(request.stream()) as stream:
        async for chunk in stream:
            size += len(chunk)
            if size > limit:
                raise body_too_large(limit)
            chunks.append(chunk)
    body = b"".join(chunks)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return body
    if encoding not in ("gzip", "x-gzip"):
        raise UnsupportedEncoding(f"Content-Encoding must be gzip or identity, got {encoding[:100]!r}")
    return await run(len(body), partial(gunzip, body, limit))


async def read_json(request: Request, limit: int, run: Run = INLINE) -> bytes:
    """Read the body of a request that says that it is JSON.

    A web page of another origin can't send such a request without asking first (CORS), but any other.

    Raises:
        UnsupportedType: `Content-Type` is not JSON.
        DerenderError: As `read_body` does.
    """
    if not _JSON.fullmatch(request.headers.get("content-type", "").strip()):
        raise UnsupportedType("Content-Type must be application/json")
    return await read_body(request, limit, run)
