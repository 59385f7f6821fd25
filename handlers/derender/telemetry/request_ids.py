"""The id that a request is followed by: through log lines, answers, and what is asked of others."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Final
from uuid import uuid4

__all__ = ["HEADER", "REQUEST_ID", "choose_request_id", "is_harmless"]

HEADER: Final = "x-request-id"
"""The header that carries it, both ways."""
REQUEST_ID: Final[ContextVar[str | None]] = ContextVar("request_id", default=None)
"""The id of the request that is being answered. What stands before the application may have given it one."""
_HARMLESS: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
"""What ids are made of, those of API Gateway too. Prose and credentials in a scheme hold a space."""


def is_harmless(name: str) -> bool:
    """Whether an id that somebody else chose may stand in a header and in a log line."""
    return _HARMLESS.fullmatch(name) is not None


def choose_request_id(asked: str | None) -> str:
    """The request's id: the client's own, or else the one that it was given on its way, or else a new one.

    Args:
        asked: What the client calls it, if it does.
    """
    if asked is not None and is_harmless(asked):
        return asked
    return REQUEST_ID.get() or str(uuid4())
