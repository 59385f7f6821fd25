"""Cases that are not right yet."""

from __future__ import annotations

from typing import Final

__all__ = ["KNOWN"]

KNOWN: Final[frozenset[str]] = frozenset()
