"""What a vocabulary can be named, and its file with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from derender.vocabulary import SUFFIX, VocabularyError, read_manifest
from layer_compiler.errors import BuildError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["LONGEST_NAME", "NAME", "check_replaced", "file_name"]

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*")
LONGEST_NAME: Final = 200


def file_name(name: str) -> str:
    """The name of a vocabulary's file."""
    return name.replace("/", "--") + SUFFIX


def check_replaced(path: Path, name: str) -> None:
    """Refuse to put a vocabulary in the place of one of another name.

    Raises:
        BuildError: The file holds another.
    """
    try:
        other = read_manifest(path).name
    except VocabularyError:
        # Of another version or damaged, its name can't be read, and to build it again is what is asked for.
        return
    if other != name:
        raise BuildError(f"{path}: holds {other}; build {name} into another folder")
