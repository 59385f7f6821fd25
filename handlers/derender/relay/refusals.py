"""What an upstream says of a request that it refuses → what the client is told."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson

from derender.errors import UpstreamBusy, UpstreamRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["refusal", "refusal_of_body"]

MAX_MESSAGE: Final = 1000
"""Characters of a message that is passed on."""
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"'<>]+", re.IGNORECASE)
_PATH: Final = re.compile(r"(?<![\w.<])(?:~|[A-Za-z]:)?[/\\](?:[\w.@+-]+[/\\])+[\w.@+-]*")
"""Of a file: of one part alone it might be anything."""
_STACK_TRACE: Final = re.compile(r"Traceback \(|\bFile .*\bline \d")
_RETRY_AFTER: Final = re.compile(r"[0-9]{1,9}|[A-Za-z]{3}, [0-9A-Za-z :]{10,30}GMT")


def refusal_of_body(
    status: int, body: bytes, *, retry_after: str | None = None, secrets: Iterable[str] = ()
) -> UpstreamRefusal | None:
    """The error of a response, if it is one that is passed on.

    Args:
        status: The response's status.
        body: The response's body.
        retry_after: The response's header of that name.
        secrets: What the message may not hold.
    """
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = None
    return refusal(status, content, retry_after=retry_after, secrets=secrets)


def refusal(
    status: object, content: Any, *, retry_after: str | None = None, secrets: Iterable[str] = ()
) -> UpstreamRefusal | None:
    """The error that JSON describes, if it is one that is passed on.

    Args:
        status: Its HTTP status.
        content: `{"error": {"message"}}`, or what older servers and FastAPI answer.
        retry_after: The response's header of that name.
        secrets: What the message may not hold.
    """
    if type(status) is not int or status not in UpstreamRefusal.TYPES:
        return None
    message = _message(content)
    if message is None or _STACK_TRACE.search(message) or any(secret in message for secret in secrets):
        message = "the upstream refused the request and gave no reason"
    else:
        message = _PATH.sub("(path)", _URL.sub("(URL)", message))[:MAX_MESSAGE]
    if retry_after is not None and not _RETRY_AFTER.fullmatch(retry_after):
        retry_after = None
    kind = UpstreamBusy if status == HTTPStatus.TOO_MANY_REQUESTS else UpstreamRefusal
    return kind(HTTPStatus(status), message, retry_after=retry_after)


def _message(content: Any) -> str | None:
    if not isinstance(content, dict):
        return None
    error = content.get("error")
    for message in (
        error.get("message") if isinstance(error, dict) else error,
        content.get("message"),
        content.get("detail"),
    ):
        if isinstance(message, str) and message.strip():
            return message.strip()
    problems = content.get("detail")
    if isinstance(problems, list) and all(isinstance(problem, dict) for problem in problems):
        # FastAPI's: with the values that are wrong, which are left out.
        return "; ".join(str(problem.get("msg", "")) for problem in problems) or None
    return None
