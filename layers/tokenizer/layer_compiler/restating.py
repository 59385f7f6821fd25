"""A compiled vocabulary with another manifest: what it says of itself changes, what it decodes does not."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from derender.vocabulary import load

if TYPE_CHECKING:
    from pathlib import Path

    from derender.vocabulary import Vocabulary

__all__ = ["restate"]

_HEAD: Final = struct.Struct("<12sIII")
"""Magic and version; checksum; length of the manifest; number of ids (`derender.vocabulary`)."""


def restate(path: Path, vocabulary: Vocabulary, **fields: Any) -> Vocabulary:
    """Write other values for fields of a vocabulary's manifest.

    Args:
        path: The vocabulary's file.
        vocabulary: The same, loaded.
        fields: Names of fields of the manifest, and their values.

    Returns:
        The vocabulary as it is now.
    """
    manifest = msgspec.structs.replace(vocabulary.manifest, **fields)
    if manifest == vocabulary.manifest:
        return vocabulary
    content = path.read_bytes()
    kind, _, length, count = _HEAD.unpack_from(content)
    text = msgspec.json.encode(manifest)
    # What follows is of 4-byte integers.
    text += b" " * (-len(text) % 4)
    checked = struct.pack("<II", len(text), count) + text + content[_HEAD.size + length :]
    # Not over it: the file may be mapped.
    new = path.with_suffix(".restated")
    new.write_bytes(kind + struct.pack("<I", zlib.crc32(checked)) + checked)
    new.replace(path)
    return load(path)
