"""Numbers and string escapes of JSON and Python, written as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

__all__ = ["JSON_ESCAPES", "NUMBER", "PYTHON_ESCAPES", "Escapes", "escape", "json_number", "python_number"]

NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A JSON number."""
_PYTHON_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9][0-9_]*)?\.?[0-9_]*(?:[eE][+-]?[0-9]+)?|[+-]?0[xXoObB][0-9a-fA-F_]+"
)
_CODE: Final = re.compile("[+-]?0[0-9_]+")
_MUST_ESCAPE: Final = re.compile(r"[\"\\\x00-\x1f\ud800-\udfff]")
_PYTHON_CHARACTERS: Final = {
    **dict(zip("ntrbfva", "\n\t\r\b\f\v\a", strict=True)),
    **{character: character for character in ("\\", "'", '"')},
    "\n": "",
}
"""What follows a backslash in Python → the character."""


def escape(text: str) -> str:
    """Write text as it stands inside a JSON string. Unicode is not escaped."""
    if _MUST_ESCAPE.search(text) is None:
        return text
    return _MUST_ESCAPE.sub(lambda match: json.dumps(match[0])[1:-1], text)


def json_number(word: str) -> str | None:
    """Return a JSON number as it is written; None if it is no number."""
    return word if NUMBER.fullmatch(word) else None


def python_number(word: str) -> str | None:
    """Write a number of Python or JSON as JSON; None if it is no number.

    Digits behind a leading zero are no number: they may be a code.
    """
    if NUMBER.fullmatch(word):
        return word
    if not _PYTHON_NUMBER.fullmatch(word) or _CODE.fullmatch(word):
        return None
    try:
        return json.dumps(int(word, 0))
    except ValueError:
        pass
    try:
        return json.dumps(float(word), allow_nan=False)
    except ValueError:
        return None


def _json_escape(written: str) -> str:
    if written == r"\'":
        return "'"
    return written if written[1] != "u" else escape(json.loads(f'"{written}"'))


def _python_escape(written: str) -> str:
    body = written[1:]
    if body in _PYTHON_CHARACTERS:
        return escape(_PYTHON_CHARACTERS[body])
    if body[0] in "xuU":
        code = int(body[1:], 16)
    elif body[0] in "01234567":
        code = int(body, 8)
    else:
        # Python keeps the backslash before a character that needs none.
        return escape(written)
    if code > 0x10FFFF:
        return "\\ufffd"
    # JSON writes the halves of a pair as Python does.
    return f"\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else escape(chr(code))


class Escapes(Struct, frozen=True):
    """What a backslash in a string means."""

    whole: re.Pattern[str]
    partial: re.Pattern[str]
    """Matches an escape that more text could complete or change."""
    to_json: Callable[[str], str]
    """Writes an escape as it stands inside a JSON string."""


JSON_ESCAPES: Final = Escapes(
    # The two escapes of a character beyond U+FFFF are one.
    re.compile(r'\\(?:["\'\\/bfnrt]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4})'),
    re.compile(
        r"\\(?:u[0-9a-fA-F]{0,3}"
        r"|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?"
    ),
    _json_escape,
)
PYTHON_ESCAPES: Final = Escapes(
    re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|[^xuU0-7])", re.DOTALL),
    re.compile(r"\\(?:x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-7]{1,2})?"),
    _python_escape,
)
