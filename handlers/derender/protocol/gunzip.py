"""Gzip, decompressed within a bound."""

from __future__ import annotations

import zlib
from typing import Final

from derender.errors import InvalidRequest, RequestTooLarge

__all__ = ["body_too_large", "gunzip"]

_GZIP: Final = 16 + zlib.MAX_WBITS


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
        raise body_too_large(limit)
    if not member.eof:
        raise InvalidRequest("the gzip body is cut short", param="body")
    if member.unused_data:
        raise InvalidRequest("something follows the gzip body; send one member", param="body")
    return content


def body_too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"the body is larger than {limit} bytes; send fewer candidates or fewer generations, or raise "
        "DERENDER_MAX_BODY_BYTES",
        param="body",
    )
