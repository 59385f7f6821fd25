"""The wire format of protocol buffers: read a message's fields, and write them.

https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MalformedError", "read_fields", "write_bytes", "write_varint"]

_VARINT, _FIXED_64, _LENGTH, _FIXED_32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED_64: 8, _FIXED_32: 4}
_MAX_VARINT_BYTES: Final = 10


class MalformedError(ValueError):
    """Bytes that are not a message."""


def read_fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield a message's fields in order: the number, and the value as an int (varint) or bytes (all others).

    Raises:
        MalformedError: The bytes are not a message.
    """
    place = 0
    while place < len(message):
        tag, place = _read_varint(message, place)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise MalformedError(f"field without a number at byte {place}")
        if kind == _VARINT:
            value, place = _read_varint(message, place)
            yield number, value
            continue
        if kind == _LENGTH:
            length, place = _read_varint(message, place)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise MalformedError(f"field of an unknown kind at byte {place}")
        if length > len(message) - place:
            raise MalformedError(f"field at byte {place} ends after the file")
        yield number, message[place : place + length]
        place += length


def _read_varint(message: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for count, byte in enumerate(message[place : place + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, place + count + 1
    raise MalformedError(f"number at byte {place} does not end")


def write_varint(number: int, value: int) -> bytes:
    """Write a field that holds a non-negative integer."""
    return _encode(number << 3 | _VARINT) + _encode(value)


def write_bytes(number: int, value: bytes) -> bytes:
    """Write a field that holds bytes, text or a message."""
    return _encode(number << 3 | _LENGTH) + _encode(len(value)) + value


def _encode(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
