"""What msgspec raises where something is no JSON."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["JSON_ERRORS", "reason_of"]

JSON_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Among them `msgspec.ValidationError`, of JSON of another shape."""


def reason_of(error: Exception) -> str:
    """Why it is none, for people."""
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
