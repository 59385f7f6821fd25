"""Server-sent events, read (HTML standard, "Server-sent events"): bytes as they come → the data of events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from derender.errors import BadGateway

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EventReader"]

_LINE_END: Final = re.compile(rb"\r\n|[\r\n]")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_DATA: Final = b"data"


class EventReader:
    """Reads a stream of events, wherever it is split.

    Lines end with LF, CRLF or CR. Comments and all fields but `data` are passed over, and an event that the end
    of the stream cuts is none. What is kept is the event that has begun, and never more than a bound.
    """

    __slots__ = ("_after_cr", "_begun", "_data", "_first", "_limit", "_size")

    def __init__(self, limit: int) -> None:
        """Begin a stream.

        Args:
            limit: Most bytes of an event, its lines' names included.
        """
        self._limit = limit
        self._begun = bytearray()  # a line without its end
        self._data: list[bytes] = []
        self._size = 0
        self._first = True
        self._after_cr = False

    def read(self, content: bytes) -> Iterator[bytes]:
        """The data of the events that end in some more of the stream.

        Args:
            content: The bytes that follow those before.

        Raises:
            BadGateway: An event is larger than the bound.
        """
        # A CR ends its line at once: what follows may be long in coming, and may be the LF of the same end.
        start = 1 if self._after_cr and content.startswith(b"\n") else 0
        self._after_cr = content.endswith(b"\r") or (self._after_cr and not content)
        for end in _LINE_END.finditer(content, start):
            line = content[start : end.start()]
            if self._begun:
                line, self._begun = bytes(self._begun) + line, bytearray()
            start = end.end()
            self._grow(len(line))
            if line:
                self._field(line)
            elif self._data:
                data, self._data, self._size = b"\n".join(self._data), [], 0
                yield data
            else:
                self._size = 0
        self._begun += content[start:]
        self._grow(len(self._begun), keep=False)

    def _grow(self, size: int, *, keep: bool = True) -> None:
        if self._size + size > self._limit:
            raise BadGateway(f"the upstream sent an event of more than {self._limit} bytes")
        if keep:
            self._size += size

    def _field(self, line: bytes) -> None:
        if self._first:
            line, self._first = line.removeprefix(_BYTE_ORDER_MARK), False
        name, _, value = line.partition(b":")
        if name == _DATA:
            self._data.append(value.removeprefix(b" "))
        elif not name:
            # A comment is no part of an event: many may come before one.
            self._size -= len(line)
