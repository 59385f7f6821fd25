"""Lambda's payloads: an event of HTTP in, a response out that is no larger than Lambda takes.

Of a larger one a gateway makes an error of its own, 502, that says nothing. Here it is an error as any other,
and says what to change.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from derender.errors import DerenderError, InternalError, InvalidRequest, ResponseTooLarge
from derender.protocol.envelope import error_response
from derender.protocol.writing import dumps
from derender.telemetry.faults import log_unexpected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Payload = dict[str, Any]
    """An event or a response, in a form of API Gateway's or of function URLs'."""
    Handler = Callable[[object, object], Payload]
    """Event, the invocation's context → response."""

__all__ = ["MAX_RESPONSE", "answer_event", "response_size", "unfailing", "writes_ascii"]

MAX_RESPONSE: Final = 6 * 1024 * 1024 + 100
"""Bytes of the largest response to a synchronous invocation (Lambda quotas, "Invocation payload"; the number is
in the error of a larger one). Of requests it is 100 less; larger ones a gateway refuses by itself, with 413.
"""
_REST: Final = 64 * 1024
"""Bytes of a response without its body, generously: headers are a few kilobytes."""
_MOST: Final = 6
"""Bytes that a character takes: escaped as `\\uXXXX`."""
_MOST_ESCAPED: Final = 12
"""The same where all that is beyond ASCII is escaped: two surrogates."""
_UNESCAPED_RUNTIMES: Final = frozenset(f"AWS_Lambda_python3.{minor}" for minor in range(12, 16))
_BEYOND_ASCII: Final = bytes(range(0x80, 0x100))
_PAIRED: Final = b'"\\\b\t\n\f\r'
"""What JSON writes as a backslash and a character."""
_CONTROLS: Final = bytes(set(range(0x20)) - set(_PAIRED))
"""What JSON writes as `\\uXXXX`."""
_AS_IT_IS: Final = bytes(set(range(0x20, 0x7F)) - set(_PAIRED))
"""What JSON writes in one byte, always."""


def unfailing(handler: Handler) -> Handler:
    """A handler that answers whatever happens.

    Of what a handler raises, Lambda returns the message, and the places in the code, to who invokes it.
    """

    @wraps(handler)
    def answering(event: object, context: object) -> Payload:
        try:
            return handler(event, context)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            with suppress(BaseException):
                log_unexpected(error)
            return dict(_INTERNAL)

    return answering


def answer_event(
    adapter: Callable[[Any, Any], Payload], event: object, context: object, *, ascii_only: bool
) -> Payload:
    """Answer an event, always with a response that Lambda takes.

    Args:
        adapter: Event, context → response.
        event: What Lambda passes on.
        context: Of the invocation.
        ascii_only: Whether the runtime's JSON is (`writes_ascii`).
    """
    try:
        response = adapter(event, context)
    except Exception as error:
        # What the application raises, the adapter catches: this is of an event that it can't read.
        log_unexpected(error)
        return _failed({}, InvalidRequest("the event is no HTTP request of API Gateway or of a function URL"))
    body = response["body"]
    most = _MOST_ESCAPED if ascii_only and not body.isascii() else _MOST
    if len(body) * most <= MAX_RESPONSE - _REST:
        return response  # whatever its characters are
    size = response_size(response, ascii_only=ascii_only)
    return response if size <= MAX_RESPONSE else _failed(response, _too_large(response, size))


def writes_ascii(environment: Mapping[str, str]) -> bool:
    """Whether the runtime escapes what is beyond ASCII, as that of Python 3.11 does, or one that it can't name.

    The rule is of `awslambdaric`, which serializes what a function returns.
    """
    return environment.get("AWS_EXECUTION_ENV") not in _UNESCAPED_RUNTIMES


def response_size(response: Payload, *, ascii_only: bool) -> int:
    """Bytes of a response as the runtime writes it, its body counted and not written.

    Args:
        response: The response.
        ascii_only: Whether the runtime's JSON is.
    """
    rest = json.dumps({**response, "body": ""}, ensure_ascii=ascii_only)
    return len(rest.encode()) + _written(response["body"], ascii_only=ascii_only)


def _written(text: str, *, ascii_only: bool) -> int:
    """Bytes of a text within a JSON string."""
    content = text.encode()
    special = content.translate(None, _AS_IT_IS)  # few: what else is counted is counted in these

    def count(characters: bytes) -> int:
        return len(special) - len(special.translate(None, characters))

    size = len(content) + count(_PAIRED) + 5 * count(_CONTROLS)
    if ascii_only:
        size += 5 * count(b"\x7f")
        if beyond := count(_BEYOND_ASCII):
            utf_16 = len(text.encode("utf-16-le")) // 2
            size += 6 * (utf_16 - (len(content) - beyond)) - beyond
    return size


def _too_large(response: Payload, size: int) -> ResponseTooLarge:
    compressed = "content-encoding" in response.get("headers", {})
    advice = "" if compressed else "accept gzip (Accept-Encoding: gzip), "
    return ResponseTooLarge(
        f"the answer is larger than Lambda returns: {size} bytes, where {MAX_RESPONSE} are the most; {advice}"
        "ask for fewer candidates or fewer choices, send fewer generations at once, or run them as a batch"
    )


def _failed(response: Payload, error: DerenderError) -> Payload:
    """A response, with an error in its place. What else its headers say stays."""
    body = dumps(error_response(error)).decode()
    headers = {
        **{name: value for name, value in response.get("headers", {}).items() if name != "content-encoding"},
        "content-type": "application/json",
        "content-length": str(len(body.encode())),
    }
    return {
        **response,
        "statusCode": int(error.status),
        "headers": headers,
        "body": body,
        "isBase64Encoded": False,
    }


_INTERNAL: Final = _failed({}, InternalError("internal error"))
