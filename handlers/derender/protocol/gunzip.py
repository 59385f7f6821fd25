"""Decompress gzip within a limit."""

from __future__ import annotations

import zlib
from typing import Final

from derender.errors import InvalidRequest, RequestTooLarge

__all__ = ["body_too_large", "gunzip"]

_GZIP: Final = 16 + zlib.MAX_WBITS


def gunzip(data: bytes, limit: int) -> bytes:
    """Decompress one gzip member. It never produces more than `limit` bytes and one.

    Raises:
        RequestTooLarge: The content is larger than `limit` bytes.
        InvalidRequest: The data is not gzip, is cut short, or has something after it.
    """
    member = zlib.decompressobj(_GZIP)
    try:
        content = member.decompress(data, limit + 1)
    except zlib.error:
        raise InvalidRequest(
            "the body is not gzip, although Content-Encoding says that it is", param="body"
        ) from None
    if len(content) > limit:
        raise body_too_large(limit)
    if not member.eof:
        raise InvalidRequest("the gzip body is cut short", param="body")
    if member.unused_data:
        raise InvalidRequest("the gzip body has something after it; send one gzip member", param="body")
    return content


def body_too_large(limit: int) -> RequestTooLarge:
    """Return the error for a body that exceeds the limit."""
    return RequestTooLarge(
        f"the body is larger than {limit} bytes; send fewer candidates or fewer generations, or raise "
        "DERENDER_MAX_BODY_BYTES",
        param="body",
    )
