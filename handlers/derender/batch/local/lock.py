"""A lock file. The lock ends with the process that holds it, however that ends."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from derender.batch.errors import BatchError

if sys.platform != "win32":  # Windows has no such lock
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["hold_lock"]


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock, whose file exists as long.

    Raises:
        BatchError: Another process holds the lock, or the file is no lock.
    """
    if sys.platform == "win32":
        yield
        return
    file = _take(path)
    if os.fstat(file).st_size:
        os.close(file)
        raise BatchError(f"{path} is no lock: move it away")
    try:
        yield
    finally:
        # Removed while it is held: afterwards another process may hold it.
        path.unlink(missing_ok=True)
        os.close(file)


def _take(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BatchError(f"{path.parent} is no folder") from None
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, file):
                return file
        except BlockingIOError:
            os.close(file)
            raise BatchError(f"another run is writing there: it holds {path}") from None
        except BaseException:
            os.close(file)
            raise
        # The process that held the lock has removed its file meanwhile.
        os.close(file)


def _is_at(path: Path, file: int) -> bool:
    """Return whether an open file is still at a path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
