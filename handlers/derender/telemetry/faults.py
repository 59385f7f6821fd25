"""Unexpected exceptions: what is logged of them, and the error that the client gets."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Final

from derender.errors import DerenderError, InternalError

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["client_error", "describe_places", "log_unexpected"]

MAX_PLACES: Final = 12
"""Places shown at either end of a traceback. What recurses too deeply passes a thousand."""

logger = logging.getLogger("derender")


def client_error(error: Exception) -> DerenderError:
    """Return the error to answer a client with.

    That is the exception itself if it is derender's own. Any other exception is logged, and answered as an
    internal error.
    """
    return error if isinstance(error, DerenderError) else log_unexpected(error)


def log_unexpected(error: BaseException) -> InternalError:
    """Log the places in the code that an unexpected exception passed, and return the error to answer with.

    The exception's message is not logged: it may contain generated text.
    """
    logger.error("unexpected %s\n%s", type(error).__name__, describe_places(error.__traceback__))
    return InternalError("internal error")


def describe_places(passed: TracebackType | None) -> str:
    """Return the places in the code that an exception passed: the first and the last, if there are many."""
    left_out = sum(1 for _ in traceback.walk_tb(passed)) - 2 * MAX_PLACES
    if left_out <= 0:
        return "".join(traceback.format_tb(passed))
    first, last = traceback.format_tb(passed, MAX_PLACES), traceback.format_tb(passed, -MAX_PLACES)
    return "".join([*first, f"  … {left_out} more\n", *last])
