"""Unexpected exceptions: what is logged of them, and the error that the client gets."""

from __future__ import annotations

import logging
import traceback

from derender.errors import DerenderError, InternalError

__all__ = ["client_error", "log_unexpected"]

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
    places = "".join(traceback.format_tb(error.__traceback__))
    logger.error("unexpected %s\n%s", type(error).__name__, places)
    return InternalError("internal error")
