"""Characters that mean something in the text that is parsed: white space and markers.

A marker is a control token of a format, such as `<tool_call>`. Where the vocabulary has it as a token, that
token is one character of the parsed text: a lone surrogate, which decoded text never holds. So text that
looks like a marker stays text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "MAX_MARKERS",
    "WHITESPACE",
    "decode_markers",
    "encode_markers",
    "number_markers",
    "skip_space",
]

WHITESPACE: Final = " \t\r\n"
_SPACE: Final = re.compile(f"[{WHITESPACE}]*")
_FIRST_MARKER: Final = 0xD800
MAX_MARKERS: Final = 0x800
"""Maximum number of markers that can have a character."""
_MARKER: Final = re.compile("[\ud800-\udfff]")


def number_markers(texts: Iterable[str]) -> dict[str, str]:
    """Give each marker a character. Returns marker text → character."""
    return {text: chr(_FIRST_MARKER + number) for number, text in enumerate(texts)}


def encode_markers(text: str, characters: Mapping[str, str]) -> str:
    """Replace markers with their characters. Of markers that begin alike, the longest counts.

    Args:
        text: The text.
        characters: Marker text → character.
    """
    for marker in sorted(characters, key=len, reverse=True):
        text = text.replace(marker, characters[marker])
    return text


def decode_markers(text: str, texts: Mapping[str, str]) -> str:
    """Replace the characters of markers with the markers' texts.

    Args:
        text: The text.
        texts: Character → marker text.
    """
    return text if _MARKER.search(text) is None else _MARKER.sub(lambda match: texts.get(match[0], ""), text)


def skip_space(text: str, start: int) -> int:
    """Return where the white space ends that begins at a place."""
    space = _SPACE.match(text, start)
    return space.end() if space else start
