"""The size of a response as Lambda's runtime writes it. Lambda returns no more than `MAX_RESPONSE` bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    Response = dict[str, Any]
    """What a function returns to API Gateway or a function URL."""

__all__ = ["MAX_RESPONSE", "excess_size", "response_size", "writes_ascii"]

MAX_RESPONSE: Final = 6 * 1024 * 1024 + 100
"""Maximum bytes of a response to a synchronous invocation.

Lambda's error for a larger response states the number. The limit of requests is 100 bytes less; the gateway
refuses larger ones with 413.
"""
_MAX_REST: Final = 64 * 1024
"""Generous bound for the bytes of a response without its body: headers take a few kilobytes."""
_MAX_ESCAPE: Final = 6
"""Maximum bytes for a character: `\\uXXXX`."""
_MAX_ASCII_ESCAPE: Final = 12
"""Maximum bytes for a character if everything beyond ASCII is escaped: two surrogates."""
_UNESCAPED_RUNTIMES: Final = frozenset(f"AWS_Lambda_python3.{minor}" for minor in range(12, 16))
_BEYOND_ASCII: Final = bytes(range(0x80, 0x100))
_PAIRED: Final = b'"\\\b\t\n\f\r'
"""Characters that JSON writes as a backslash and one character."""
_CONTROLS: Final = bytes(set(range(0x20)) - set(_PAIRED))
"""Characters that JSON writes as `\\uXXXX`."""
_PLAIN: Final = bytes(set(range(0x20, 0x7F)) - set(_PAIRED))
"""Characters that JSON always writes as one byte."""


def writes_ascii(environment: Mapping[str, str]) -> bool:
    """Return whether the runtime escapes everything beyond ASCII.

    Lambda's Python 3.11 does (`awslambdaric`); an unknown runtime may.
    """
    return environment.get("AWS_EXECUTION_ENV") not in _UNESCAPED_RUNTIMES


def excess_size(response: Response, *, ascii_only: bool) -> int | None:
    """Return the size of a response that exceeds `MAX_RESPONSE`, or None if it fits.

    Args:
        response: The response.
        ascii_only: Whether the runtime escapes everything beyond ASCII.
    """
    body = response["body"]
    longest = _MAX_ASCII_ESCAPE if ascii_only and not body.isascii() else _MAX_ESCAPE
    if len(body) * longest <= MAX_RESPONSE - _MAX_REST:
        return None  # it fits, whatever the characters are
    size = response_size(response, ascii_only=ascii_only)
    return size if size > MAX_RESPONSE else None


def response_size(response: Response, *, ascii_only: bool) -> int:
    """Return the bytes of a response as the runtime writes it. The body is counted without writing it.

    Args:
        response: The response.
        ascii_only: Whether the runtime escapes everything beyond ASCII.
    """
    rest = json.dumps({**response, "body": ""}, ensure_ascii=ascii_only)
    return len(rest.encode()) + _json_size(response["body"], ascii_only=ascii_only)


def _json_size(text: str, *, ascii_only: bool) -> int:
    """Return the bytes of a text inside a JSON string."""
    content = text.encode()
    special = content.translate(None, _PLAIN)  # few are left, so counting in these is fast

    def count(characters: bytes) -> int:
        return len(special) - len(special.translate(None, characters))

    size = len(content) + count(_PAIRED) + 5 * count(_CONTROLS)
    if ascii_only:
        size += 5 * count(b"\x7f")
        if beyond := count(_BEYOND_ASCII):
            utf_16 = len(text.encode("utf-16-le")) // 2
            size += 6 * (utf_16 - (len(content) - beyond)) - beyond
    return size
