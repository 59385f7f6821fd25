"""Which custom ids were used: an index on disk, since a job may have more than fit into memory."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .records import read_custom_ids

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["CustomIds", "custom_ids"]


class CustomIds:
    """The custom ids of the lines so far.

    Args:
        database: Where they are kept.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        for statement in (
            "PRAGMA journal_mode = OFF",  # it is made again if anything happens to it
            "PRAGMA synchronous = OFF",
            "PRAGMA cache_size = -65536",
            "CREATE TABLE line (digest BLOB PRIMARY KEY, offset INTEGER) WITHOUT ROWID",
            "BEGIN",  # nor is it committed: each line would be by itself
        ):
            database.execute(statement)

    def add(self, packed: bytes) -> list[int]:
        """Add the ids of a record.

        Returns:
            Where the lines begin whose id an earlier line has.
        """
        lines = list(read_custom_ids(packed))
        added = self._database.executemany("INSERT OR IGNORE INTO line (offset, digest) VALUES (?, ?)", lines)
        if added.rowcount == len(lines):
            return []
        first = "SELECT offset FROM line WHERE digest = ?"
        return [at for at, digest in lines if self._database.execute(first, [digest]).fetchone() != (at,)]


@contextmanager
def custom_ids(folder: Path) -> Iterator[CustomIds]:
    """An index in a folder, while it is used: 24 bytes for each line, and 64 MB of memory."""
    database = sqlite3.connect(folder / "custom_ids.sqlite", isolation_level=None)
    try:
        yield CustomIds(database)
    finally:
        database.close()
