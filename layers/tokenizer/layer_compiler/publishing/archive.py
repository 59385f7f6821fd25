"""Pack a layer as a zip archive. The same vocabularies give the same bytes."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from derender.vocabulary import find_files, load

if TYPE_CHECKING:
    from pathlib import Path

    from derender.vocabulary import Manifest

__all__ = ["Archive", "measure_unpacked", "pack"]

FOLDER: Final = "tokenizer"
"""The folder's name under /opt."""
_EARLIEST_TIME: Final = (1980, 1, 1, 0, 0, 0)
_READABLE: Final = 0o100644
"""A file that everyone may read: Lambda runs as another user than its owner."""
_UNIX: Final = 3


@dataclass(frozen=True)
class Archive:
    """A packed layer."""

    content: bytes
    digest: str
    """SHA-256 of the packed files. The archive's own digest changes with the compression library."""
    manifests: tuple[Manifest, ...]


def measure_unpacked(folder: Path) -> int:
    """Return the bytes that a layer takes on Lambda's disk.

    Raises:
        VocabularyError: The folder holds no vocabulary.
    """
    return sum(path.stat().st_size for path in find_files(folder))


def pack(folder: Path) -> Archive:
    """Pack a folder's vocabularies and no other files.

    Raises:
        VocabularyError: There is no vocabulary, or one is damaged.
    """
    packed, digest, manifests = io.BytesIO(), hashlib.sha256(), []
    with zipfile.ZipFile(packed, "w") as archive:
        for path in find_files(folder):
            manifests.append(load(path).manifest)
            content = path.read_bytes()
            name = f"{FOLDER}/{path.name}"
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
            member = zipfile.ZipInfo(name, _EARLIEST_TIME)
            member.create_system, member.external_attr = _UNIX, _READABLE << 16
            archive.writestr(member, content, zipfile.ZIP_DEFLATED, compresslevel=9)
    return Archive(packed.getvalue(), digest.hexdigest(), tuple(manifests))
