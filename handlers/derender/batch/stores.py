"""Where a job's objects are: a store has them under names, and writes each whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "Changed",
    "Forbidden",
    "NotFound",
    "Refused",
    "Stat",
    "Store",
    "StoreError",
    "TooLarge",
    "Unavailable",
]


class StoreError(Exception):
    """What is asked of a store can't be done. The message names the object."""


class NotFound(StoreError):  # noqa: N818 - the name is what is wrong
    """There is no such object."""


class Forbidden(StoreError):  # noqa: N818
    """It may not be read or written."""


class Changed(StoreError):  # noqa: N818
    """It is not the object that it was."""


class Refused(StoreError):  # noqa: N818
    """The store does not do that with such a name, however often it is asked."""


class TooLarge(StoreError):  # noqa: N818
    """It has more bytes than are wanted."""


class Unavailable(StoreError):  # noqa: N818
    """The store can't be reached, is busy, or fails: it may be able to later."""


class Stat(NamedTuple):
    """What is known of an object without reading it."""

    size: int
    """In bytes."""
    etag: str
    """Another one once the object is replaced."""


class Store(Protocol):
    """Objects under names. May be used by several threads. All that it does may raise a `StoreError`."""

    def stat(self, name: str) -> Stat:
        """An object's size and etag."""

    def has(self, name: str) -> bool:
        """Whether there is an object."""

    def names(self, prefix: str) -> Iterator[str]:
        """The names that begin with a prefix, which ends with a slash, in order."""

    def read(self, name: str, *, most: int | None = None) -> bytes:
        """A whole object.

        Args:
            name: Its name.
            most: How many bytes it may have; None for any number.

        Raises:
            TooLarge: It has more.
        """

    def read_range(self, name: str, start: int, end: int, *, etag: str) -> bytes:
        """The bytes of an object from `start` to before `end`, which are there.

        Raises:
            Changed: The object has another etag.
        """

    def write(self, name: str, content: bytes) -> None:
        """Put an object: all of it, or nothing."""

    def write_all(self, name: str, contents: Iterable[bytes]) -> int:
        """Put an object that may be larger than memory, piece by piece: all of it, or nothing.

        Returns:
            How many bytes it has.
        """
