"""What can be wrong with a job, and with a line of it."""

from __future__ import annotations

from typing import Literal

__all__ = ["BatchError", "LineCode", "LineError"]

LineCode = Literal[
    "duplicate_custom_id",
    "invalid_custom_id",
    "invalid_json_line",
    "invalid_method",
    "invalid_reference",
    "invalid_url",
    "line_too_long",
    "missing_body",
    "reference_forbidden",
    "reference_not_found",
    "reference_too_large",
    "too_many_references",
]


class BatchError(Exception):
    """A job that can't be done, however often it is tried. The message says what to change."""


class LineError(Exception):
    """A line that can't be run: an error of that line alone. The message holds nothing of what it says.

    Args:
        code: What kind of error it is.
        message: What to change.
        custom_id: The line's, where it has one.
    """

    def __init__(self, code: LineCode, message: str, custom_id: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.custom_id = custom_id
