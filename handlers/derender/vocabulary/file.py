"""The compiled vocabulary: token id → bytes, mapped from one flat file.

A file holds what decoding needs and nothing an encoder would: each id's own bytes and a manifest. All
integers are little-endian.

    offset  size
    0       8        magic, b"derender"
    8       4        format version
    12      4        CRC-32 of everything from byte 16 on; what is before it has one right value each
    16      4        m, length of the manifest
    20      4        n, number of ids
    24      m        manifest, JSON, padded with spaces to a multiple of 4
    24+m    4(n+1)   offset of each id's bytes in the blob, and the blob's end
    …                the blob: the ids' bytes one after another
    …                where the rule is "tokenizers", a whole tokenizer.json

The file is mapped: loading reads it through once, for the checksum, and makes no object of what no request
mentions. An id without a name (the padding of the embedding table) has no bytes.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import msgspec

from .manifest import Manifest
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
    "SUFFIX",
    "VersionError",
    "VocabularyError",
    "dump",
    "files",
    "load",
    "read_manifest",
    "with_manifest",
]

SUFFIX: Final = ".vocab"
MAGIC: Final = b"derender"
FORMAT_VERSION: Final = 3
_HEADER: Final = struct.Struct("<8sIIII")
_CHECKED_FROM: Final = 16


class VocabularyError(ValueError):
    """A vocabulary file that can't be used; the message names the file and says why."""


class VersionError(VocabularyError):
    """A vocabulary file of another format version; to be built again."""


def dump(manifest: Manifest, pieces: Sequence[bytes], tokenizer_json: bytes = b"") -> bytes:
    """Write a vocabulary file's content.

    Args:
        manifest: What the file says of itself.
        pieces: Each id's bytes, `manifest.size` of them.
        tokenizer_json: A whole tokenizer.json, where the rule is "tokenizers".
    """
    offsets = [0, *accumulate(map(len, pieces))]
    return _content(manifest, len(pieces), struct.pack(f"<{len(offsets)}I", *offsets), *pieces, tokenizer_json)


def with_manifest(content: bytes, manifest: Manifest) -> bytes:
    """A vocabulary file's content with another manifest: what it decodes to stays.

    Args:
        content: The whole file, sound.
        manifest: What it is to say of itself.
    """
    *_, length, count = _HEADER.unpack_from(content)
    return _content(manifest, count, content[_HEADER.size + length :])


def _content(manifest: Manifest, count: int, *rest: bytes) -> bytes:
    text = msgspec.json.encode(manifest)
    text += b" " * (-len(text) % 4)
    checked = b"".join((struct.pack("<II", len(text), count), text, *rest))
    return MAGIC + struct.pack("<II", FORMAT_VERSION, zlib.crc32(checked)) + checked


def files(folder: Path) -> list[Path]:
    """The vocabulary files in a folder, by name.

    Raises:
        VocabularyError: The folder can't be read, or holds none.
    """
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX)
    except OSError as error:
        raise VocabularyError(f"{folder}: can't be read: {error.strerror}") from error
    if not found:
        raise VocabularyError(
            f"{folder}: no compiled vocabulary (*{SUFFIX}); "
            "make one with: derender layer build FOLDER --name NAME --out DIR"
        )
    return found


def load(path: Path) -> Vocabulary:
    """Map a vocabulary file.

    Raises:
        VocabularyError: The file is missing, of another format or version, or damaged.
    """
    content = _map(path)
    manifest_length, count = _check(path, content)
    manifest = _manifest(path, content, manifest_length)
    start = _HEADER.size + manifest_length
    end = start + 4 * (count + 1)
    if manifest_length % 4 or end > len(content) or count != manifest.size:
        raise VocabularyError(f"{path}: the number of ids is not the manifest's")
    offsets, blob = content[start:end].cast("I"), content[end:]
    if offsets[0] or offsets[-1] > len(blob) or (manifest.rule != "tokenizers" and offsets[-1] < len(blob)):
        raise VocabularyError(f"{path}: the ids' bytes are not as long as the file says")
    try:
        return Vocabulary(manifest, offsets, blob)
    except Exception as error:
        # The tokenizers library raises a bare Exception for what it does not know.
        raise VocabularyError(f"{path}: the tokenizers library refuses it: {error}") from error


def read_manifest(path: Path) -> Manifest:
    """Read what a vocabulary file says of itself, without checking the rest of it.

    Raises:
        VocabularyError: The file is missing, or of another format or version.
    """
    content = _map(path)
    return _manifest(path, content, _header(path, content)[1])


def _map(path: Path) -> memoryview:
    if not path.is_file():
        # A pipe would be waited for.
        raise VocabularyError(f"{path}: can't be read: No such file")
    try:
        with path.open("rb") as file:
            # The mapping outlives the descriptor.
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise VocabularyError(f"{path}: can't be read: {error}") from error


def _header(path: Path, content: memoryview) -> tuple[int, int, int]:
    """Checksum, length of the manifest, number of ids."""
    if len(content) < _HEADER.size or bytes(content[: len(MAGIC)]) != MAGIC:
        raise VocabularyError(f"{path}: not a compiled vocabulary")
    _, version, checksum, manifest_length, count = _HEADER.unpack_from(content)
    if version != FORMAT_VERSION:
        raise VersionError(
            f"{path}: format version {version}, this program reads {FORMAT_VERSION}; build the layer again"
        )
    return checksum, manifest_length, count


def _check(path: Path, content: memoryview) -> tuple[int, int]:
    checksum, manifest_length, count = _header(path, content)
    if zlib.crc32(content[_CHECKED_FROM:]) != checksum:
        raise VocabularyError(f"{path}: damaged: the checksum does not match; build the layer again")
    return manifest_length, count


def _manifest(path: Path, content: memoryview, length: int) -> Manifest:
    try:
        return msgspec.json.decode(content[_HEADER.size : _HEADER.size + length], type=Manifest)
    except (ValueError, RecursionError) as error:
        raise VocabularyError(f"{path}: the manifest can't be read: {error}") from error
