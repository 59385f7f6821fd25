"""Request bodies: read within a bound, decompressed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from derender.errors import UnsupportedEncoding
from derender.protocol.gunzip import body_too_large, gunzip

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["read_body"]


async def read_body(request: Request, limit: int) -> bytes:
    """The body, decompressed as `Content-Encoding` says.

    Args:
        request: The HTTP request.
        limit: Largest body in bytes, as sent and decompressed.

    Raises:
        RequestTooLarge: It is larger.
        UnsupportedEncoding: It is compressed, but not with gzip.
        InvalidRequest: It is not what `Content-Encoding` says.
    """
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise body_too_large(limit)
        chunks.append(chunk)
    body = b"".join(chunks)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return body
    if encoding not in ("gzip", "x-gzip"):
        raise UnsupportedEncoding(f"Content-Encoding {encoding!r} is not accepted; send gzip, or none")
    return gunzip(body, limit)
