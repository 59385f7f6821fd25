"""Errors of upstreams: which of them clients see, and what operators find in the log."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson

from derender.errors import BadGateway, GatewayTimeout, UpstreamBusy, UpstreamRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["log_faults", "refusal", "refusal_of_body"]

logger = logging.getLogger("derender")

_BUSY: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
MAX_MESSAGE: Final = 1000
"""Maximum characters of an upstream's message that clients see."""
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"'<>]+", re.IGNORECASE)
_PATH: Final = re.compile(r"(?<![\w.<])(?:~|[A-Za-z]:)?[/\\](?:[\w.@+-]+[/\\])+[\w.@+-]*")
"""A file path of at least two parts; a single part could be anything."""
_NO_TOKENIZER: Final = re.compile(r"requires? a tokenizer|--tokens-only|skip_tokenizer_init")
NEEDS_TOKENIZER: Final = (
    "; this needs a generate server with a tokenizer: start vLLM with --enable-scale-out, not --tokens-only"
)
_STACK_TRACE: Final = re.compile(r"Traceback \(|\bFile .*\bline \d")
_PARAM: Final = re.compile(r"[\w.\[\]-]{1,200}")
"""The path of a field. Anything else may be a value."""
_RETRY_AFTER: Final = re.compile(r"[0-9]{1,9}|[A-Za-z]{3}, [0-9A-Za-z :]{10,30}GMT")


def refusal_of_body(
    status: int, body: bytes, *, retry_after: str | None = None, secrets: Iterable[str] = ()
) -> UpstreamRefusal | None:
    """Return the error that an unsuccessful response becomes, if clients may see it.

    Args:
        status: The status of the response.
        body: The body of the response.
        retry_after: The `Retry-After` header of the response.
        secrets: Strings that no message may contain.
    """
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = None
    return refusal(status, content, retry_after=retry_after, secrets=secrets)


def refusal(
    status: object, content: Any, *, retry_after: str | None = None, secrets: Iterable[str] = ()
) -> UpstreamRefusal | None:
    """Return the error that a JSON value describes, if clients may see it.

    Args:
        status: The HTTP status of the error.
        content: `{"error": {"message", "param"}}`, or an error as older servers and FastAPI write it.
        retry_after: The `Retry-After` header of the response.
        secrets: Strings that no message may contain.
    """
    if type(status) is not int or status not in UpstreamRefusal.TYPES:
        return None
    message = _message(content)
    if message is None or _STACK_TRACE.search(message) or any(secret in message for secret in secrets):
        message = "the upstream refused the request and gave no reason"
    else:
        message = _PATH.sub("(path)", _URL.sub("(URL)", message))[:MAX_MESSAGE]
        if _NO_TOKENIZER.search(message):
            message = message.rstrip(".") + NEEDS_TOKENIZER
    if retry_after is not None and not _RETRY_AFTER.fullmatch(retry_after):
        retry_after = None
    kind = UpstreamBusy if status in _BUSY else UpstreamRefusal
    return kind(HTTPStatus(status), message, param=_param(content, secrets), retry_after=retry_after)


@contextmanager
def log_faults(name: str) -> Iterator[None]:
    """Log what is wrong with an upstream or with its response, and raise it again.

    Args:
        name: The name of the upstream.
    """
    try:
        yield
    except (BadGateway, GatewayTimeout, UpstreamBusy) as fault:
        logger.warning("upstream %s: %s", name, fault.unquoted)
        raise


def _param(content: Any, secrets: Iterable[str]) -> str | None:
    """Return the field that the error names, if it is one."""
    error = content.get("error") if isinstance(content, dict) else None
    param = error.get("param") if isinstance(error, dict) else None
    if not isinstance(param, str) or not _PARAM.fullmatch(param) or any(secret in param for secret in secrets):
        return None
    return param


def _message(content: Any) -> str | None:
    if not isinstance(content, dict):
        return None
    error, detail = content.get("error"), content.get("detail")
    for message in (
        error.get("message") if isinstance(error, dict) else error,
        content.get("message"),
        detail,
    ):
        if isinstance(message, str) and message.strip():
            return message.strip()
    if isinstance(detail, list) and all(isinstance(problem, dict) for problem in detail):
        # FastAPI lists validation errors with the values it refused; leave those out.
        return "; ".join(str(problem.get("msg", "")) for problem in detail) or None
    return None
