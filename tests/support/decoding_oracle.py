"""Decoding written the slow and obvious way, to compare the detokenizer with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["REPLACEMENT", "byte_fallback_text", "byte_level_text", "split"]


REPLACEMENT: Final = "\ufffd"


def ends_a_character(data: bytes) -> bool:
    """Return whether the last bytes are one whole character, or there are none."""
    for length in range(1, 5):
        try:
            if len(data) >= length and len(data[-length:].decode()) == 1:
                return True
        except UnicodeDecodeError:
            continue
    return not data


def byte_level_text(pieces: Sequence[bytes]) -> str:
    """Return the text up to the last token that ends a character."""
    for count in range(len(pieces), 0, -1):
        data = b"".join(pieces[:count])
        if ends_a_character(data):
            return data.decode(errors="replace")
    return ""


def byte_fallback_text(pieces: Sequence[tuple[bytes, bool]]) -> str:
    """Return the text of pieces. Each says whether it is a single byte; runs of bytes become characters."""
    text, run = "", b""
    for piece, single in pieces:
        if single:
            run += piece
        elif piece:
            whole, rest = _characters(run)
            text, run = text + whole + REPLACEMENT * len(rest) + piece.decode(), b""
    return text + _characters(run)[0]


def _characters(data: bytes) -> tuple[str, bytes]:
    text = ""
    while data:
        for length in range(1, 5):
            try:
                text += data[:length].decode()
            except UnicodeDecodeError:
                continue
            data = data[length:]
            break
        else:
            break
    return text, data


def split(items: Sequence[int], cuts: Sequence[int]) -> list[list[int]]:
    """Split items into pieces of the given lengths and a last piece of the rest."""
    pieces, rest = [], list(items)
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    return [*pieces, rest]
