"""Server-sent events, decoded (HTML standard, "Server-sent events")."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from derender.errors import BadGateway

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EventDecoder"]

_LINE_END: Final = re.compile(rb"\r\n|[\r\n]")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_DATA: Final = b"data"


class EventDecoder:
    """Decodes a stream of bytes into the data of its events, no matter how the stream is split.

    Lines end with LF, CRLF or CR. Comments, fields other than `data`, and an event that the end of the stream
    truncates are ignored. The decoder buffers one event at most, up to a limit.
    """

    __slots__ = ("_after_cr", "_data", "_first_line", "_limit", "_partial_line", "_size")

    def __init__(self, limit: int) -> None:
        """Start a stream.

        Args:
            limit: Maximum bytes per event, field names included.
        """
        self._limit = limit
        self._partial_line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._first_line = True
        self._after_cr = False

    def decode(self, content: bytes) -> Iterator[bytes]:
        """Yield the data of each event that the content completes.

        Args:
            content: The next bytes of the stream.

        Raises:
            BadGateway: An event exceeds the limit.
        """
        # A CR ends its line at once, because the next byte may be long in coming. An LF that follows belongs to
        # the same line end.
        start = 1 if self._after_cr and content.startswith(b"\n") else 0
        self._after_cr = content.endswith(b"\r") or (self._after_cr and not content)
        for end in _LINE_END.finditer(content, start):
            line = content[start : end.start()]
            if self._partial_line:
                line, self._partial_line = bytes(self._partial_line) + line, bytearray()
            start = end.end()
            self._check_size(len(line))
            self._size += len(line)
            if line:
                self._add_field(line)
            else:
                data, self._data, self._size = self._data, [], 0
                if data:
                    yield b"\n".join(data)
        self._partial_line += content[start:]
        self._check_size(len(self._partial_line))

    def _check_size(self, more: int) -> None:
        if self._size + more > self._limit:
            raise BadGateway(f"the upstream sent an event larger than {self._limit} bytes")

    def _add_field(self, line: bytes) -> None:
        if self._first_line:
            line, self._first_line = line.removeprefix(_BYTE_ORDER_MARK), False
        name, _, value = line.partition(b":")
        if name == _DATA:
            self._data.append(value.removeprefix(b" "))
        elif not name:
            # Comments are not part of an event: many may precede one.
            self._size -= len(line)
