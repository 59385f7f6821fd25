"""Files as a store: names are paths."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .store import Changed, Forbidden, NotFound, Stat, TooLarge, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["FileStore", "remove_unfinished"]

_UNFINISHED: Final = ".unfinished-"
"""Prefix of the names of files that are being written. Lists leave them out."""


class FileStore:
    """A `Store` of files."""

    def stat(self, name: str) -> Stat:
        """Return a file's size and a tag that changes with its content."""
        with _store_errors(name):
            return _stat(os.stat(name))  # noqa: PTH116 - the same call as for an open file

    def exists(self, name: str) -> bool:
        """Return whether a file exists."""
        return Path(name).is_file()

    def list_names(self, prefix: str) -> Iterator[str]:
        """Return the files of a folder."""
        with _store_errors(prefix):
            names = sorted(entry.name for entry in os.scandir(prefix)) if Path(prefix).is_dir() else []
        return (prefix + name for name in names if not name.startswith(_UNFINISHED))

    def read(self, name: str, *, max_bytes: int | None = None) -> bytes:
        """Return a file."""
        with _store_errors(name), Path(name).open("rb") as file:
            content = file.read(-1 if max_bytes is None else max_bytes + 1)
        if max_bytes is not None and len(content) > max_bytes:
            raise TooLarge(f"{name} has more than {max_bytes} bytes")
        return content

    def read_range(self, name: str, start: int, end: int, *, etag: str) -> bytes:
        """Return some bytes of a file."""
        with _store_errors(name), Path(name).open("rb") as file:
            if _stat(os.fstat(file.fileno())).etag != etag:
                raise Changed(f"{name} was changed")
            file.seek(start)
            content = file.read(end - start)
        if len(content) != end - start:
            raise Changed(f"{name} was cut")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file."""
        self.write_chunks(name, [content])

    def write_chunks(self, name: str, chunks: Iterable[bytes]) -> int:
        """Write a file under another name, and rename it once it is complete and on disk."""
        path, size = Path(name), 0
        unfinished = path.with_name(f"{_UNFINISHED}{os.getpid()}-{threading.get_ident()}-{path.name}")
        with _store_errors(name):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with unfinished.open("wb") as file:
                    for chunk in chunks:
                        size += file.write(chunk)
                    file.flush()
                    os.fsync(file.fileno())
                unfinished.replace(path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
        return size


def remove_unfinished(folder: Path) -> None:
    """Remove the files of a folder that processes which died were writing."""
    for path in folder.glob(f"{_UNFINISHED}*"):
        path.unlink(missing_ok=True)


def _stat(stat: os.stat_result) -> Stat:
    return Stat(stat.st_size, f"{stat.st_size}-{stat.st_mtime_ns}")


@contextmanager
def _store_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"{name} does not exist") from None
    except PermissionError:
        raise Forbidden(f"{name} may not be read or written") from None
    except OSError as error:
        raise Unavailable(f"{name}: {error.strerror or error}") from error
