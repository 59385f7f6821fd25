"""Request bodies: bounded, and decompressed."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from derender.errors import UnsupportedEncoding
from derender.protocol.gunzip import body_too_large, gunzip

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["read_body"]


async def read_body(request: Request, limit: int) -> bytes:
    """Read the body of a request and decompress it.

    Args:
        request: The request.
        limit: Maximum size in bytes, both as sent and decompressed.

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
        raise UnsupportedEncoding(f"Content-Encoding must be gzip or identity, got {encoding!r}")
    return gunzip(body, limit)
