"""Why a layer can't be built."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["BuildError", "OriginError", "build_extra"]


class BuildError(ValueError):
    """The tokenizer can't be compiled; nothing was written. The message says what to change."""


class OriginError(BuildError):
    """The tokenizer's files can't be had; one line that says what to change."""


@contextmanager
def build_extra(path: Path) -> Iterator[None]:
    """Import here what only building needs, and not every build.

    Args:
        path: The file that needs it.

    Raises:
        BuildError: It is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise BuildError(f"{path}: needs {package}: pip install 'derender[build]'") from error
