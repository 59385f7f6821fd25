"""The exceptions that msgspec raises for malformed JSON."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["JSON_ERRORS", "describe_json_error"]

JSON_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""They include `msgspec.ValidationError`, for JSON of another shape."""


def describe_json_error(error: Exception) -> str:
    """Return the reason in words."""
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
