"""Byte-level vocabularies as tekken and tiktoken write them: a token's bytes in base64, with its rank."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Final

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import LayerError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["PATTERN", "read_byte_pairs"]

PATTERN: Final = r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"
"""How the proof splits a text before it encodes it. Decoding doesn't depend on the pattern, and the one in a
hostile file could run forever."""
_BYTES: Final = frozenset(bytes([byte]) for byte in range(256))


def read_byte_pairs(path: Path, entries: Iterable[tuple[int, bytes | str]]) -> dict[bytes, int]:
    """Read tokens and their ranks.

    Args:
        path: The file, for messages.
        entries: Each rank with its token in base64.

    Raises:
        LayerError: A rank or token is invalid or repeated, or a byte has no rank.
    """
    ranks: dict[bytes, int] = {}
    seen: set[int] = set()
    for rank, encoded in entries:
        if not 0 <= rank < MAX_SIZE:
            raise LayerError(f"{path}: rank {rank}: ranks are 0 to {MAX_SIZE - 1}")
        try:
            token = binascii.a2b_base64(encoded, strict_mode=True)
        except ValueError as error:
            raise LayerError(f"{path}: rank {rank}: not base64: {error}") from error
        if not token:
            raise LayerError(f"{path}: rank {rank}: an empty token")
        if rank in seen:
            raise LayerError(f"{path}: rank {rank} is listed twice")
        if token in ranks:
            raise LayerError(f"{path}: ranks {ranks[token]} and {rank} have the same token")
        seen.add(rank)
        ranks[token] = rank
    if missing := _BYTES - ranks.keys():
        raise LayerError(f"{path}: byte 0x{min(missing).hex().upper()} has no rank; the file is incomplete")
    return ranks
