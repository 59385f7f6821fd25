"""Request bodies: read within a bound, decompressed."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from .errors import InvalidRequest, RequestTooLarge, UnsupportedEncoding

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["gunzip", "read_body"]

_GZIP: Final = 16 + zlib.MAX_WBITS


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
            raise _too_large(limit)
        chunks.append(chunk)
    body = b"".join(chunks)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return body
    if encoding not in ("gzip", "x-gzip"):
        raise UnsupportedEncoding(f"Content-Encoding {encoding!r} is not accepted; send gzip, or none")
    return gunzip(body, limit)


def gunzip(data: bytes, limit: int) -> bytes:
    """Decompress one gzip member, never producing more than `limit` bytes and one.

    Raises:
        RequestTooLarge: There is more in it.
        InvalidRequest: It is no gzip, cut short, or followed by something else.
    """
    member = zlib.decompressobj(_GZIP)
    try:
        content = member.decompress(data, limit + 1)
    except zlib.error:
        raise InvalidRequest("the body is not gzip, though Content-Encoding says so", param="body") from None
    if len(content) > limit:
        raise _too_large(limit)
    if not member.eof:
        raise InvalidRequest("the gzip body is cut short", param="body")
    if member.unused_data:
        raise InvalidRequest("something follows the gzip body; send one member", param="body")
    return content


def _too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"the body is larger than {limit} bytes; send fewer candidates or fewer generations, or raise "
        "DERENDER_MAX_BODY_BYTES",
        param="body",
    )
