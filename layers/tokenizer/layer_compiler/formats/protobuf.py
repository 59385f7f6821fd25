"""The wire format of protocol buffers: a message's fields, and back. What they mean is the reader's to know.

https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MalformedError", "fields", "length_delimited", "varint"]

_VARINT, _FIXED_64, _LENGTH, _FIXED_32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED_64: 8, _FIXED_32: 4}
_LONGEST_VARINT: Final = 10


class MalformedError(ValueError):
    """Bytes that are no message."""


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message in order: number and value. A varint is an int, all else the bytes that it is.

    Raises:
        MalformedError: It is none.
    """
    place = 0
    while place < len(message):
        tag, place = _read_varint(message, place)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise MalformedError(f"a field without a number at byte {place}")
        if kind == _VARINT:
            value, place = _read_varint(message, place)
            yield number, value
            continue
        if kind == _LENGTH:
            length, place = _read_varint(message, place)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise MalformedError(f"a field of an unknown kind at byte {place}")
        if length > len(message) - place:
            raise MalformedError(f"a field at byte {place} ends after the file")
        yield number, message[place : place + length]
        place += length


def _read_varint(message: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for count, byte in enumerate(message[place : place + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, place + count + 1
    raise MalformedError(f"a number at byte {place} does not end")


def varint(number: int, value: int) -> bytes:
    """A field that holds an integer from 0 up."""
    return _written(number << 3 | _VARINT) + _written(value)


def length_delimited(number: int, value: bytes) -> bytes:
    """A field that holds bytes, a text or a message."""
    return _written(number << 3 | _LENGTH) + _written(len(value)) + value


def _written(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
