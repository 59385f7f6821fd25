"""The file of a compiled vocabulary: the bytes of each token id, and a manifest.

The file contains what decoding needs, and nothing that only an encoder needs. Integers are little-endian.

    offset  size
    0       8        magic, b"derender"
    8       4        format version
    12      4        CRC-32 of everything from byte 16 on
    16      4        m, length of the manifest
    20      4        n, number of ids
    24      m        manifest, JSON, padded with spaces to a multiple of 4
    24+m    4(n+1)   offset of each id's bytes in the blob, and the blob's end
    …                the blob: the bytes of all ids
    …                the tokenizer.json, if the rule is "tokenizers"

The file is mapped into memory. Loading reads it once, for the checksum, and creates objects only for the ids
that requests mention. Ids without a token, which pad the embedding table, have no bytes.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import msgspec

from .manifest import Manifest
from .vocabulary import Vocabulary, VocabularyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
    "SUFFIX",
    "VersionError",
    "VocabularyError",
    "dump",
    "find_files",
    "load",
    "read_manifest",
    "replace_manifest",
]

SUFFIX: Final = ".vocab"
MAGIC: Final = b"derender"
FORMAT_VERSION: Final = 3
_HEADER: Final = struct.Struct("<8sIIII")
_CHECKED_FROM: Final = 16


class VersionError(VocabularyError):
    """A vocabulary file of another format version. It has to be built again."""


def dump(manifest: Manifest, pieces: Sequence[bytes], tokenizer_json: bytes = b"") -> bytes:
    """Return the content of a vocabulary file.

    Args:
        manifest: The manifest.
        pieces: The bytes of each id, `manifest.size` in all.
        tokenizer_json: The tokenizer.json, if the rule is "tokenizers".
    """
    offsets = [0, *accumulate(map(len, pieces))]
    return _content(manifest, len(pieces), struct.pack(f"<{len(offsets)}I", *offsets), *pieces, tokenizer_json)


def replace_manifest(content: bytes, manifest: Manifest) -> bytes:
    """Return the content of a vocabulary file with another manifest. The tokens stay as they are.

    Args:
        content: The content of a valid file.
        manifest: The new manifest.
    """
    *_, length, count = _HEADER.unpack_from(content)
    return _content(manifest, count, content[_HEADER.size + length :])


def _content(manifest: Manifest, count: int, *rest: bytes) -> bytes:
    text = msgspec.json.encode(manifest)
    text += b" " * (-len(text) % 4)
    checked = b"".join((struct.pack("<II", len(text), count), text, *rest))
    return MAGIC + struct.pack("<II", FORMAT_VERSION, zlib.crc32(checked)) + checked


def find_files(folder: Path) -> list[Path]:
    """Return the vocabulary files in a folder, sorted by name.

    Raises:
        VocabularyError: The folder can't be read, or contains none.
    """
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX)
    except OSError as error:
        raise VocabularyError(f"{folder}: can't be read: {error.strerror}") from error
    if not found:
        raise VocabularyError(
            f"{folder}: no compiled vocabulary (*{SUFFIX}); "
            "build one with: derender layer build FOLDER --name NAME --out DIR"
        )
    return found


def load(path: Path, *, check_order: bool = True) -> Vocabulary:
    """Load a vocabulary file by mapping it into memory.

    Args:
        path: The file.
        check_order: Whether to check that all offsets are in order, which takes ten times as long as all else.
            Otherwise those of an id are checked when it is first decoded.

    Raises:
        VocabularyError: The file is missing or damaged, or has another format or version.
    """
    content = _map(path)
    manifest_length, count = _check(path, content)
    manifest = _manifest(path, content, manifest_length)
    start = _HEADER.size + manifest_length
    end = start + 4 * (count + 1)
    if manifest_length % 4 or end > len(content) or count != manifest.size:
        raise VocabularyError(f"{path}: the number of ids differs from the manifest's")
    if any(token_id >= count for prompt in manifest.generation_prompts for token_id in prompt.token_ids):
        raise VocabularyError(f"{path}: a generation prompt has an id that the vocabulary lacks")
    offsets, blob = content[start:end].cast("I"), content[end:]
    if offsets[0] or offsets[-1] > len(blob) or (manifest.rule != "tokenizers" and offsets[-1] < len(blob)):
        raise VocabularyError(f"{path}: the offsets don't fit the length of the file")
    if check_order and (listed := offsets.tolist()) != sorted(listed):
        raise VocabularyError(f"{path}: damaged: the offsets are not in order; build the layer again")
    try:
        return Vocabulary(manifest, offsets, blob)
    except Exception as error:
        # The tokenizers library raises a bare Exception for a tokenizer that it does not know.
        raise VocabularyError(f"{path}: the tokenizers library refuses it: {error}") from error


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of a vocabulary file, without checking the rest of the file.

    Raises:
        VocabularyError: The file is missing, or has another format or version.
    """
    content = _map(path)
    return _manifest(path, content, _header(path, content)[1])


def _map(path: Path) -> memoryview:
    if not path.is_file():
        # Opening a pipe would block.
        raise VocabularyError(f"{path}: can't be read: No such file")
    try:
        with path.open("rb") as file:
            # The mapping outlives the descriptor.
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise VocabularyError(f"{path}: can't be read: {error}") from error


def _header(path: Path, content: memoryview) -> tuple[int, int, int]:
    """Return the checksum, the length of the manifest and the number of ids."""
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
