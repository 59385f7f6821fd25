"""The error of all layer commands, and what to install when a package is missing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LayerError", "explain_missing_package", "first_line", "shorten"]


MAX_SHOWN: Final = 200
"""Characters of a name that a message shows."""


class LayerError(ValueError):
    """A layer can't be built, checked or published. The message says what to change, in one line."""


@contextmanager
def explain_missing_package(subject: object, extra: str = "build") -> Iterator[None]:
    """Name the extra to install if an import in this block fails.

    Args:
        subject: The file, source or command that needs the package.
        extra: The extra of derender that installs it.

    Raises:
        LayerError: A package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise LayerError(f"{subject}: needs {package}: pip install 'derender[{extra}]'") from error


def first_line(error: Exception) -> str:
    """Return the first line of a library's message, or the error's type if there is none."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def shorten(name: str) -> str:
    """Return a name that somebody else chose, as a message shows it: in one line, and not too long."""
    shown = name if name.isprintable() else repr(name)
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"
