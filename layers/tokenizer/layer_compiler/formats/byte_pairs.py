"""What byte-level formats have in common: tokens that are bytes, each with a rank that is its id."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Final

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["PATTERN", "byte_pairs"]

PATTERN: Final = r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"
"""How a text is cut before it is encoded, for the proof. Decoding does not depend on it, and a model's own,
from a file that comes from anywhere, might take forever."""
_BYTES: Final = frozenset(bytes([byte]) for byte in range(256))


def byte_pairs(path: Path, entries: Iterable[tuple[int, bytes | str]]) -> dict[bytes, int]:
    """Tokens and their ranks.

    Args:
        path: The file they are of.
        entries: Rank and token, in base64.

    Raises:
        BuildError: They are no vocabulary: the message says where.
    """
    ranks: dict[bytes, int] = {}
    ids: set[int] = set()
    for rank, encoded in entries:
        if not 0 <= rank < MAX_SIZE:
            raise BuildError(f"{path}: rank {rank}; ranks are from 0 to {MAX_SIZE - 1}")
        try:
            token = binascii.a2b_base64(encoded, strict_mode=True)
        except ValueError as error:
            raise BuildError(f"{path}: rank {rank}: no base64: {error}") from error
        if not token:
            raise BuildError(f"{path}: rank {rank}: an empty token")
        if rank in ids:
            raise BuildError(f"{path}: rank {rank} is there twice")
        if token in ranks:
            raise BuildError(f"{path}: ranks {ranks[token]} and {rank} are of the same token")
        ids.add(rank)
        ranks[token] = rank
    if missing := _BYTES - ranks.keys():
        raise BuildError(f"{path}: byte 0x{min(missing).hex().upper()} has no rank; the file is cut, or none")
    return ranks
