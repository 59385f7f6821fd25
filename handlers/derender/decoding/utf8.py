"""UTF-8 that comes in parts: whether bytes end, or continue, a character."""

from __future__ import annotations

import codecs
from typing import Final

__all__ = ["REPLACEMENT", "continues", "decode_valid", "ends_character"]

REPLACEMENT: Final = "\ufffd"


def ends_character(data: bytes) -> bool:
    """Return whether bytes end with a complete character, or are empty."""
    for length in range(1, min(4, len(data)) + 1):
        first = data[-length]
        if first < 0x80:
            return length == 1
        if first >= 0xC0:
            try:
                data[-length:].decode()
            except UnicodeDecodeError:
                return False
            return True
    return not data


def continues(beginning: bytes, data: bytes) -> bool:
    """Return whether bytes complete the character that `beginning` begins, or may still do so."""
    text, _ = codecs.utf_8_decode((beginning + data)[:4], "replace", False)
    return not text.startswith(REPLACEMENT)


def decode_valid(data: bytes) -> tuple[str, bytes]:
    """Decode up to the first byte that fits no character, or that begins an incomplete one.

    Returns:
        The text, and the bytes after it.
    """
    try:
        text, end = codecs.utf_8_decode(data, "strict", False)
    except UnicodeDecodeError as error:
        end = error.start
        text = data[:end].decode()
    return text, data[end:]
