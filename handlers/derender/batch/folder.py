"""Files as a store: names are paths."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .stores import Changed, Forbidden, NotFound, Stat, TooLarge, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["FileStore"]

_UNFINISHED: Final = ".unfinished-"
"""What the names of files begin with while they are written. They are in no list."""


class FileStore:
    """A `Store` of files."""

    def stat(self, name: str) -> Stat:
        """A file's size, and what tells it from another or a changed one."""
        with _errors(name):
            return _stat(os.stat(name))  # noqa: PTH116 - as for the open file

    def has(self, name: str) -> bool:
        """Whether there is a file."""
        return Path(name).is_file()

    def names(self, prefix: str) -> Iterator[str]:
        """The files of a folder."""
        with _errors(prefix):
            found = sorted(entry.name for entry in os.scandir(prefix)) if Path(prefix).is_dir() else []
        return (prefix + name for name in found if not name.startswith(_UNFINISHED))

    def read(self, name: str, *, most: int | None = None) -> bytes:
        """A whole file."""
        with _errors(name), Path(name).open("rb") as file:
            content = file.read(-1 if most is None else most + 1)
        if most is not None and len(content) > most:
            raise TooLarge(f"{name} has more than {most} bytes")
        return content

    def read_range(self, name: str, start: int, end: int, *, etag: str) -> bytes:
        """Some of a file."""
        with _errors(name), Path(name).open("rb") as file:
            if _stat(os.fstat(file.fileno())).etag != etag:
                raise Changed(f"{name} was changed")
            file.seek(start)
            content = file.read(end - start)
        if len(content) != end - start:
            raise Changed(f"{name} was cut")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Put a file."""
        self.write_all(name, [content])

    def write_all(self, name: str, contents: Iterable[bytes]) -> int:
        """Put a file under another name, and rename it when it is complete and on disk."""
        path, size = Path(name), 0
        unfinished = path.with_name(f"{_UNFINISHED}{os.getpid()}-{threading.get_ident()}-{path.name}")
        with _errors(name):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with unfinished.open("wb") as file:
                    for content in contents:
                        size += file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                unfinished.replace(path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
        return size


def _stat(found: os.stat_result) -> Stat:
    return Stat(found.st_size, f"{found.st_size}-{found.st_mtime_ns}")


@contextlib.contextmanager
def _errors(name: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"{name} is not there") from None
    except PermissionError:
        raise Forbidden(f"{name} may not be read or written") from None
    except OSError as error:
        raise Unavailable(f"{name}: {error.strerror or error}") from error
