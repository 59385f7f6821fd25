"""A layer's zip archive: the same vocabularies give the same bytes."""

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

__all__ = ["Archive", "archive", "unpacked_size"]

FOLDER: Final = "tokenizer"
"""What Lambda mounts below /opt."""
_EARLIEST: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip archive can say."""
_READABLE: Final = 0o100644
"""A file that its owner may write and everyone read: Lambda's user is another."""
_UNIX: Final = 3


@dataclass(frozen=True)
class Archive:
    """A packed layer."""

    content: bytes
    digest: str
    """SHA-256 of what is packed: the archive's own changes with the library that compresses."""
    manifests: tuple[Manifest, ...]


def unpacked_size(folder: Path) -> int:
    """How many bytes a layer has on Lambda's disk.

    Raises:
        VocabularyError: There is none in the folder.
    """
    return sum(path.stat().st_size for path in find_files(folder))


def archive(folder: Path) -> Archive:
    """Pack a folder's vocabularies, and nothing else that may be there.

    Raises:
        VocabularyError: There is none, or one is damaged.
    """
    packed, digest, manifests = io.BytesIO(), hashlib.sha256(), []
    with zipfile.ZipFile(packed, "w") as zipped:
        for path in find_files(folder):
            manifests.append(load(path).manifest)
            content = path.read_bytes()
            name = f"{FOLDER}/{path.name}"
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
            member = zipfile.ZipInfo(name, _EARLIEST)
            member.create_system, member.external_attr = _UNIX, _READABLE << 16
            zipped.writestr(member, content, zipfile.ZIP_DEFLATED, compresslevel=9)
    return Archive(packed.getvalue(), digest.hexdigest(), tuple(manifests))
