"""Splitting a byte range of a file into the lines that begin in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Line", "read_lines"]

READ_BYTES: Final = 8 * 1024 * 1024
"""Bytes that are read at a time."""
FIRST_READ_BEYOND: Final = 64 * 1024
"""Bytes of the first read beyond the range, for a line that goes on there. Each further read doubles them."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""Some programs begin a UTF-8 file with it. JSON does not allow it (RFC 8259, section 8.1)."""


class Line(NamedTuple):
    """A line of a file."""

    offset: int
    """Offset of its first byte."""
    end: int
    """Offset of the next line, or the size of the file."""
    content: bytes | None
    """The line without its newline, and without the byte order mark of the file; None if it is too long."""


def read_lines(
    read: Callable[[int, int], bytes], start: int, end: int, size: int, max_bytes: int
) -> Iterator[Line]:
    """Yield the lines that begin in a range, whole, wherever they end.

    Adjacent ranges that cover a file yield each of its lines once.

    Args:
        read: Returns the bytes from one offset up to another.
        start: Start of the range.
        end: End of the range, greater than `start`.
        size: Bytes of the file.
        max_bytes: Maximum bytes of a line. A longer one is skipped without keeping it.
    """
    # A line begins after a newline, so reading starts with the byte before the range.
    begin = max(start - 1, 0)
    length, kept = 0, list[bytes]()
    for position, chunk in _read_chunks(read, begin, end, size):
        at = 0
        while (newline := chunk.find(b"\n", at)) >= 0:
            next_line = position + newline + 1
            if begin >= start:
                length += newline - at
                kept.append(chunk[at:newline])
                yield Line(begin, next_line, _join(begin, kept) if length <= max_bytes else None)
            begin, length, at = next_line, 0, newline + 1
            kept.clear()
            if begin >= end:
                return
        if begin >= start:
            length += len(chunk) - at
            kept.append(chunk[at:])
            if length > max_bytes:
                kept.clear()
        elif position + len(chunk) >= end:
            return
    yield Line(begin, size, _join(begin, kept) if length <= max_bytes else None)


def _join(offset: int, chunks: list[bytes]) -> bytes:
    line = b"".join(chunks)
    return line if offset else line.removeprefix(_BYTE_ORDER_MARK)


def _read_chunks(
    read: Callable[[int, int], bytes], start: int, end: int, size: int
) -> Iterator[tuple[int, bytes]]:
    """Yield chunks of the file from `start` on, each with its offset."""
    position, beyond = start, FIRST_READ_BEYOND
    while position < size:
        if position < end:
            stop = min(end, position + READ_BYTES)
        else:
            stop = min(size, position + beyond)
            beyond = min(2 * beyond, READ_BYTES)
        yield position, read(position, stop)
        position = stop
