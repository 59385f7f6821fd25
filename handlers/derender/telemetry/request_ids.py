"""Request ids: one id follows a request through log lines, the answer, and the requests to upstreams."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Final
from uuid import uuid4

__all__ = ["HEADER", "REQUEST_ID", "choose_request_id", "harmless_or_none", "is_harmless"]

HEADER: Final = "x-request-id"
"""The header that carries the id, in requests and in answers."""
REQUEST_ID: Final[ContextVar[str | None]] = ContextVar("request_id", default=None)
"""Id of the current request. Code that runs before the application may set it."""
_HARMLESS: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
"""Characters of ids, including those of API Gateway. Prose, and credentials with a scheme, contain a space."""


def is_harmless(name: str) -> bool:
    """Return whether an id that somebody else chose may appear in a header and in log lines."""
    return _HARMLESS.fullmatch(name) is not None


def harmless_or_none(name: object) -> str | None:
    """Return an id that somebody else chose if it is a harmless string, else None."""
    return name if isinstance(name, str) and is_harmless(name) else None


def choose_request_id(asked: str | None) -> str:
    """Return the request's id: the client's, else the one that is already set, else a new one.

    Args:
        asked: The id in the client's header, if there is one.
    """
    return harmless_or_none(asked) or REQUEST_ID.get() or str(uuid4())
