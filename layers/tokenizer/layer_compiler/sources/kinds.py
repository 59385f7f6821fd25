"""The kinds of sources, told apart by how they are written and by what exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from derender.vocabulary import SUFFIX
from layer_compiler.errors import LayerError

__all__ = ["SourceKind", "find_kind"]

SourceKind = Literal["compiled", "folder", "hub", "s3"]

_REPOSITORY: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_S3: Final = "s3://"
_MAX_CHARACTERS: Final = 1024
_SHOWN_CHARACTERS: Final = 200


def find_kind(source: str, base: Path = Path()) -> SourceKind:
    """Return the kind of a source. What exists as a folder is a folder, even if it is named like a repository.

    Args:
        source: A folder, a compiled vocabulary (`*.vocab`), `org/name`, or `s3://bucket/prefix`.
        base: The folder that relative paths start from.

    Raises:
        LayerError: It is none of them.
    """
    shown = repr(source if len(source) <= _SHOWN_CHARACTERS else f"{source[:_SHOWN_CHARACTERS]}…")
    if len(source) > _MAX_CHARACTERS or not source.isprintable():
        raise LayerError(f"{shown}: a source has at most {_MAX_CHARACTERS:,} printable characters")
    try:
        if source.endswith(SUFFIX):
            return _check_compiled(source, base, shown)
        if source.startswith(_S3):
            return "s3"
        if source and (base / source).exists():
            return "folder"
    except OSError as error:
        raise LayerError(f"{shown}: can't be read: {error.strerror}") from error
    if _REPOSITORY.fullmatch(source):
        return "hub"
    raise LayerError(
        f"{shown}: no such folder; a source is a folder, a Hugging Face repository (org/name) "
        "or s3://bucket/prefix"
    )


def _check_compiled(source: str, base: Path, shown: str) -> SourceKind:
    if source.startswith(_S3):
        raise LayerError(f"{shown}: a compiled vocabulary is not fetched; copy it here and name the copy")
    if not (base / source).is_file():
        raise LayerError(f"{shown}: no such file")
    return "compiled"
