"""An index of custom ids, on disk because those of a job may exceed memory."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .record import read_custom_ids

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["CustomIds", "open_index"]


class CustomIds:
    """The custom ids of the lines so far."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        for statement in (
            "PRAGMA journal_mode = OFF",  # after a crash, the index is made again
            "PRAGMA synchronous = OFF",
            "PRAGMA cache_size = -65536",
            "CREATE TABLE line (digest BLOB PRIMARY KEY, offset INTEGER) WITHOUT ROWID",
            "BEGIN",  # one transaction, never committed: otherwise each line would be one
        ):
            database.execute(statement)

    def add(self, packed: bytes) -> list[int]:
        """Add the custom ids of a record.

        Returns:
            Offsets of the lines whose id an earlier line has.
        """
        lines = list(read_custom_ids(packed))
        added = self._database.executemany("INSERT OR IGNORE INTO line (offset, digest) VALUES (?, ?)", lines)
        if added.rowcount == len(lines):
            return []
        first = "SELECT offset FROM line WHERE digest = ?"
        return [at for at, digest in lines if self._database.execute(first, [digest]).fetchone() != (at,)]


@contextmanager
def open_index(folder: Path) -> Iterator[CustomIds]:
    """Open an index in a folder. It takes 24 bytes for each line there, and 64 MB of memory."""
    database = sqlite3.connect(folder / "custom_ids.sqlite", isolation_level=None)
    try:
        yield CustomIds(database)
    finally:
        database.close()
