"""Read a recording of token ids and their text, as JSON lines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from layer_compiler.errors import LayerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["RecordedText", "read_recording"]

_MAX_LINE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class RecordedText:
    """Token ids and their text, as another decoder decoded them."""

    place: str
    """File and line."""
    token_ids: tuple[int, ...]
    text: str


class _Line(msgspec.Struct):
    token_ids: list[Annotated[int, msgspec.Meta(ge=0)]]
    text: str


def read_recording(path: Path) -> Iterator[RecordedText]:
    """Yield each line's `token_ids` and `text`. Other fields are ignored.

    Raises:
        LayerError: The file can't be read, has an invalid line, or has none.
    """
    try:
        with path.open("rb") as file:
            number = found = 0
            while line := file.readline(_MAX_LINE_BYTES):
                number += 1
                if line.strip():
                    found += 1
                    yield _read_line(f"{path}:{number}", line)
    except OSError as error:
        raise LayerError(f"{path}: can't be read: {error.strerror}") from error
    if not found:
        raise LayerError(f"{path}: no line with token_ids and text")


def _read_line(place: str, line: bytes) -> RecordedText:
    try:
        # Python's reader accepts lone surrogates, which a text may hold.
        fields = msgspec.convert(json.loads(line), _Line)
    except (ValueError, RecursionError) as error:
        raise LayerError(f"{place}: expected token_ids and text: {error}") from error
    return RecordedText(place, tuple(fields.token_ids), fields.text)
