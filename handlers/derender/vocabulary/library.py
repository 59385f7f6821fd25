"""The `tokenizers` library, whose panics become ordinary exceptions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TokenizersError", "catch_panics"]


class TokenizersError(Exception):
    """The `tokenizers` library panicked. The message is the library's: it may contain generated text."""


@contextmanager
def catch_panics() -> Iterator[None]:
    """Raise a panic of the `tokenizers` library, which is not an `Exception`, as a `TokenizersError`."""
    try:
        yield
    except BaseException as error:
        # The library does not export the class.
        if type(error).__name__ == "PanicException":
            raise TokenizersError(str(error)) from error
        raise
