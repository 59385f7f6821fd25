"""The interface of stores, and their errors."""

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

# ruff: noqa: N818 - the errors are named after what is wrong


class StoreError(Exception):
    """Base class of the errors of a store. The message names the object."""


class NotFound(StoreError):
    """The object does not exist."""


class Forbidden(StoreError):
    """The object may not be read or written."""


class Changed(StoreError):
    """The object was replaced."""


class Refused(StoreError):
    """The store refuses such a name or request, however often it is asked."""


class TooLarge(StoreError):
    """The object exceeds the limit."""


class Unavailable(StoreError):
    """The store can't be reached, is busy, or fails. It may answer later."""


class Stat(NamedTuple):
    """What a store tells about an object without reading it."""

    size: int
    """Bytes of the object."""
    etag: str
    """A tag that changes when the object is replaced."""


class Store(Protocol):
    """Objects under names, for use by several threads. Every method may raise a `StoreError`."""

    def stat(self, name: str) -> Stat:
        """Return an object's size and etag."""

    def exists(self, name: str) -> bool:
        """Return whether an object exists."""

    def list_names(self, prefix: str) -> Iterator[str]:
        """Return the names that start with a prefix, in order. The prefix ends with a slash."""

    def read(self, name: str, *, max_bytes: int | None = None) -> bytes:
        """Return an object.

        Args:
            name: Its name.
            max_bytes: The limit of its size, if there is one.

        Raises:
            TooLarge: The object exceeds the limit.
        """

    def read_range(self, name: str, start: int, end: int, *, etag: str) -> bytes:
        """Return the bytes of an object from `start` up to `end`, which the object has.

        Raises:
            Changed: The object has another etag.
        """

    def write(self, name: str, content: bytes) -> None:
        """Write an object, whole or not at all."""

    def write_chunks(self, name: str, chunks: Iterable[bytes]) -> int:
        """Write an object that may exceed memory, whole or not at all.

        Returns:
            Bytes of the object.
        """
