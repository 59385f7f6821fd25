"""Model names, and the file names that follow from them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from derender.vocabulary import SUFFIX, VocabularyError, read_manifest
from layer_compiler.errors import LayerError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MAX_CHARACTERS", "check_name", "file_name", "refuse_other_vocabulary"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*")
MAX_CHARACTERS: Final = 200


def check_name(name: str) -> str:
    """Return a model's name if it is valid.

    Raises:
        LayerError: It has other characters, or too many.
    """
    if not _NAME.fullmatch(name) or len(name) > MAX_CHARACTERS:
        raise LayerError(
            f"{name[:MAX_CHARACTERS]!r}: a name has letters, digits and ._:@+- in parts separated by /, "
            f"and at most {MAX_CHARACTERS} characters"
        )
    return name


def file_name(name: str) -> str:
    """Return the name of a vocabulary's file."""
    return name.replace("/", "--") + SUFFIX


def refuse_other_vocabulary(path: Path, name: str) -> None:
    """Refuse to replace the vocabulary of another model.

    Raises:
        LayerError: The file holds another model's vocabulary.
    """
    try:
        other = read_manifest(path).name
    except VocabularyError:
        # It doesn't exist, has another version or is damaged: building it again repairs it.
        return
    if other != name:
        raise LayerError(f"{path}: holds {other}; build {name} into another folder")
