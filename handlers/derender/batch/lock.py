"""A lock that a process holds, and that ends with it however it ends."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .errors import BatchError

if sys.platform != "win32":  # there, nothing keeps two processes apart
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["locked"]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock. Its file is there as long.

    Raises:
        BatchError: Another process holds it, or the file is of something else.
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
        # While it is held: afterwards it may be another's.
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
            if _is_open(path, file):
                return file
        except BlockingIOError:
            os.close(file)
            raise BatchError(f"another run writes there now: it holds {path}") from None
        except BaseException:
            os.close(file)
            raise
        # Who held it has removed it meanwhile.
        os.close(file)


def _is_open(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
