"""Errors of jobs and of lines."""

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
    """A line that can't be run. It fails alone.

    Attributes:
        code: The kind of error.
        message: What was wrong and what to change. It holds nothing of the line.
        custom_id: The line's `custom_id`, if it has one.
    """

    def __init__(self, code: LineCode, message: str, custom_id: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.custom_id = custom_id
