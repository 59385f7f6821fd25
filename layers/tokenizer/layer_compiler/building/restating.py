"""A compiled vocabulary with another manifest: what it says of itself changes, what it decodes does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from derender.vocabulary import load, replace_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from derender.vocabulary import Vocabulary

__all__ = ["restate"]


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
    # Not over it: the file may be mapped.
    new = path.with_suffix(".restated")
    new.write_bytes(replace_manifest(path.read_bytes(), manifest))
    new.replace(path)
    return load(path)
