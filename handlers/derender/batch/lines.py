"""A byte range → the lines that begin in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Line", "read_lines"]

MOST_READ: Final = 8 * 1024 * 1024
"""Bytes that are read at a time."""
FIRST_BEYOND: Final = 64 * 1024
"""Bytes that are read at first for a line that goes on after the range. Then twice as many, and so on."""


class Line(NamedTuple):
    """A line of a file."""

    offset: int
    """Where it begins, in bytes."""
    end: int
    """Where the next one does, or the file ends."""
    content: bytes | None
    """Without its newline. None for a line that is too long."""


def read_lines(
    read: Callable[[int, int], bytes], start: int, end: int, size: int, longest: int
) -> Iterator[Line]:
    """The lines that begin in a range, each once, whole wherever it ends.

    Cut a file into ranges as one likes: together they have each line once.

    Args:
        read: Gives the file's bytes from one offset to before another.
        start: Where the range begins.
        end: Where it ends; more than `start`.
        size: The file's, in bytes.
        longest: Most bytes of a line. Of one that has more, only where it ends is looked for.
    """
    # A line begins after a newline. So the byte before the range is looked at, as if a line began with it.
    begin = max(start - 1, 0)
    length, kept = 0, list[bytes]()
    for position, chunk in _chunks(read, begin, end, size):
        at = 0
        while (newline := chunk.find(b"\n", at)) >= 0:
            after = position + newline + 1
            if begin >= start:
                length += newline - at
                kept.append(chunk[at:newline])
                yield Line(begin, after, b"".join(kept) if length <= longest else None)
            begin, length, at = after, 0, newline + 1
            kept.clear()
            if begin >= end:
                return
        if begin >= start:
            length += len(chunk) - at
            kept.append(chunk[at:])
            if length > longest:
                kept.clear()
        elif position + len(chunk) >= end:
            return
    if begin < size:
        yield Line(begin, size, b"".join(kept) if length <= longest else None)


def _chunks(read: Callable[[int, int], bytes], start: int, end: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The file from `start` on, each chunk with its offset."""
    position, beyond = start, FIRST_BEYOND
    while position < size:
        if position < end:
            stop = min(end, position + MOST_READ)
        else:
            stop = min(size, position + beyond)
            beyond = min(2 * beyond, MOST_READ)
        yield position, read(position, stop)
        position = stop
