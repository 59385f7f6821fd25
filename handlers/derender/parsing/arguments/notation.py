r"""Values as models write them → JSON, in pieces.

A notation is JSON, Python's literals or Gemma's form of JSON. Reading one is a machine with a stack of what is
open, so a marker, a quote or a brace inside a string is text.

    read(JSON, NotationState(), '{"city": "Par', 0)  →  '{"city": "Par', all of it read, in a string
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

from msgspec import Meta, Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "GEMMA",
    "JSON",
    "PYTHON",
    "Notation",
    "NotationState",
    "Read",
    "as_json",
    "escape",
    "read",
    "with_quotes",
]

MOST_NESTED: Final = 200
"""Deepest nesting that is read."""
MOST_WORD: Final = 400
"""Longest number, literal, bare word or bare key."""

Phase = Literal[
    "value", "first", "next", "key", "next key", "colon", "after", "string", "key string", "done", "bad"
]
"""What comes next: a value; the first of a list, or its end; the next of a list; a key, or the object's
end; the next key; what is between key and value; a comma, or the end of what is open. Or where the machine
is: inside a string that is a value or a key; behind the value; behind a fault."""


@dataclass(frozen=True, slots=True)
class Notation:
    """A way to write values."""

    quotes: tuple[str, ...]
    """What begins a string, and ends it."""
    escapes: Literal["json", "python"] | None
    """What a backslash in a string means; None for itself."""
    words: Mapping[str, str]
    """Word → JSON."""
    verbatim: bool = False
    """Whether white space outside strings stays as it is written; else it is that of `json.dumps`."""
    bare: bool = False
    """Whether keys, and strings, may be without quotes."""
    trailing_comma: bool = False


_JSON_WORDS: Final = {"true": "true", "false": "false", "null": "null"}
_PYTHON_WORDS: Final = {"True": "true", "False": "false", "None": "null", **_JSON_WORDS}
JSON: Final = Notation(('"',), "json", _JSON_WORDS, verbatim=True)
PYTHON: Final = Notation(
    ("'''", '"""', "'", '"'),
    "python",
    _PYTHON_WORDS,
    trailing_comma=True,
)
"""Literals of Python. A call's arguments are an object (`CALL_ARGUMENTS`)."""
GEMMA: Final = Notation(('<|"|>', '"'), None, _PYTHON_WORDS, bare=True, trailing_comma=True)


class NotationState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where reading a value is."""

    phase: Phase = "value"
    open: Annotated[str, Meta(max_length=MOST_NESTED, pattern=r"^[\])}K]*\Z")] = ""
    """What ends each open list and object, the innermost last; a call's arguments end with K."""
    quote: Annotated[int, Meta(ge=0, lt=4)] = 0
    """Which of the notation's quotes ends the open string."""

    def __post_init__(self) -> None:
        if not self.open and self.phase not in ("value", "string", "done", "bad"):
            raise ValueError("nothing is open")


CALL_ARGUMENTS: Final = NotationState("key", "K")
"""Behind the parenthesis that opens a call's arguments in Python."""


class Read(NamedTuple):
    """What reading a piece of text gave."""

    json: str
    """JSON text, to be appended to what came before."""
    end: int
    """Where reading stopped: the end of the value, or what has to wait for more text."""
    state: NotationState


_SPACE: Final = re.compile(r"[ \t\r\n]*")
_PLAIN: Final = re.compile(r"[^\"'\\<\x00-\x1f\ud800-\udfff]+")
"""Characters that mean themselves in a string, in all notations and in JSON."""
_PLAIN_JSON: Final = re.compile(r'(?:[^"\\\x00-\x1f\ud800-\udfff]++|\\["\\/bfnrt])++')
"""What stays as it is in a string of JSON."""
_WORD: Final = re.compile(r"[^\s,:=\[\]{}()\"'\ud800-\udfff]+")
_BARE: Final = re.compile(r"[^,\[\]{}\"\ud800-\udfff]+")
_BARE_KEY: Final = re.compile(r"[^:,\[\]{}\"\ud800-\udfff]+")
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number of JSON."""
_PYTHON_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9][0-9_]*)?\.?[0-9_]*(?:[eE][+-]?[0-9]+)?|[+-]?0[xXoObB][0-9a-fA-F_]+"
)
_JSON_ESCAPE: Final = re.compile(
    r'\\(?:["\\/bfnrt]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4})'
)
"""An escape of JSON; the two of a character beyond U+FFFF are one."""
_PYTHON_ESCAPE: Final = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|[^xuU0-7])", re.DOTALL
)
_PYTHON_ESCAPES: Final = {
    **dict(zip("ntrbfva", "\n\t\r\b\f\v\a", strict=True)),
    **{character: character for character in ("\\", "'", '"')},
    "\n": "",
}
_JSON_ESCAPE_BEGUN: Final = re.compile(
    r"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?)?"
)
_PYTHON_ESCAPE_BEGUN: Final = re.compile(r"\\(?:x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-7]{1,2})?")
_CLOSERS: Final = {"{": "}", "[": "]", "(": ")"}
_CLOSED: Final = {"}": "}", "]": "]", ")": "]", "K": "}"}
"""What is open → how JSON ends it."""
_MUST_ESCAPE: Final = re.compile(r"[\"\\\x00-\x1f\ud800-\udfff]")


def escape(text: str) -> str:
    """Text as it stands inside a JSON string. Unicode is not escaped."""
    if _MUST_ESCAPE.search(text) is None:
        return text
    return _MUST_ESCAPE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


def as_json(notation: Notation, text: str) -> str | None:
    """A whole value as JSON; None where it is not one."""
    got = read(notation, NotationState(), text.strip(" \t\r\n"), 0, final=True)
    return got.json if got.state.phase == "done" and got.end == len(text.strip(" \t\r\n")) else None


def read(
    notation: Notation,
    state: NotationState,
    text: str,
    start: int,
    *,
    markers: Mapping[str, str] | None = None,
    final: bool = False,
) -> Read:
    """Read on, as far as the value goes or the text can be decided.

    Args:
        notation: How the value is written.
        state: Where the text before it has led.
        text: The text.
        start: Where to begin.
        markers: Characters that stand for markers → the markers' text. In a string, they are text.
        final: Whether the output ends with the text.
    """
    machine = _Machine(notation, state, text, start, markers or {}, final)
    machine.run()
    return Read("".join(machine.out), machine.at, machine.state())


class _Machine:
    """One run of `read`."""

    __slots__ = ("at", "final", "markers", "notation", "number", "open", "out", "phase", "text")

    def __init__(
        self,
        notation: Notation,
        state: NotationState,
        text: str,
        at: int,
        markers: Mapping[str, str],
        final: bool,
    ) -> None:
        self.notation = notation
        self.phase, self.open, self.number = state.phase, state.open, state.quote
        self.text, self.at, self.markers, self.final = text, at, markers, final
        self.out: list[str] = []

    def state(self) -> NotationState:
        inside = self.phase in ("string", "key string")
        return NotationState(self.phase, self.open, self.number if inside else 0)

    def run(self) -> None:
        length = len(self.text)
        while self.at < length and self.phase not in ("done", "bad"):
            before = self.at
            if self.phase in ("string", "key string"):
                self._string()
            else:
                self._outside()
            if self.at == before and self.phase not in ("done", "bad"):
                # What is left may be the beginning of something.
                break

    def _bad(self) -> None:
        self.phase = "bad"

    def _string(self) -> None:
        if plain := (_PLAIN_JSON if self.notation.verbatim else _PLAIN).match(self.text, self.at):
            self.out.append(plain[0])
            self.at = plain.end()
            return
        character, quote = self.text[self.at], self.notation.quotes[self.number]
        if self.text.startswith(quote, self.at):
            self.at += len(quote)
            self.out.append('"')
            self.phase = "after" if self.phase == "string" else "colon"
            self._end_value()
        elif self._begins(quote):
            return
        elif character == "\\" and self.notation.escapes:
            self._escape()
        else:
            self.out.append(escape(self.markers.get(character, character)))
            self.at += 1

    def _begins(self, text: str) -> bool:
        """Whether what is left is the beginning of a text, and more may come."""
        return not self.final and text.startswith(self.text[self.at :])

    def _escape(self) -> None:
        json_escapes = self.notation.escapes == "json"
        match = (_JSON_ESCAPE if json_escapes else _PYTHON_ESCAPE).match(self.text, self.at)
        begun = _JSON_ESCAPE_BEGUN if json_escapes else _PYTHON_ESCAPE_BEGUN
        if not self.final and begun.fullmatch(self.text, self.at):
            return
        if match is None:
            self._bad()
            return
        self.at = match.end()
        self.out.append(_json_escape(match[0]) if json_escapes else _python_escape(match[0][1:]))

    def _outside(self) -> None:
        space = _SPACE.match(self.text, self.at)
        if space and space[0]:
            if self.notation.verbatim:
                self.out.append(space[0])
            self.at = space.end()
            return
        match self.phase:
            case "value" | "first" | "next":
                self._value()
            case "key" | "next key":
                self._key()
            case "colon":
                self._colon()
            case _:
                self._after()

    def _closes(self, empty: bool) -> bool:
        """Read what ends the innermost list or object, where it may end."""
        if not self.open:
            return False
        closer = ")" if self.open[-1] == "K" else self.open[-1]
        if self.text[self.at] != closer or not (empty or self.notation.trailing_comma):
            return False
        self.out.append(_CLOSED[self.open[-1]])
        self.open = self.open[:-1]
        self.at += 1
        self.phase = "after"
        self._end_value()
        return True

    def _end_value(self) -> None:
        if not self.open and self.phase == "after":
            self.phase = "done"

    def _comma(self) -> None:
        """Write the comma that was read before this."""
        if self.phase in ("next", "next key") and not self.notation.verbatim:
            self.out.append(", ")

    def _value(self) -> None:
        character = self.text[self.at]
        if self.phase in ("first", "next") and self._closes(empty=self.phase == "first"):
            return
        quote = self._quote()
        if quote is None:
            return
        if quote >= 0:
            self._open_string(quote, "string")
        elif character in _CLOSERS and (character != "(" or self.notation.escapes == "python"):
            if len(self.open) >= MOST_NESTED:
                self._bad()
                return
            self._comma()
            self.at += 1
            self.open += _CLOSERS[character]
            self.out.append("{" if character == "{" else "[")
            self.phase = "key" if character == "{" else "first"
        else:
            self._word()

    def _quote(self) -> int | None:
        """Which quote is here; -1 for none, None where it takes more text to know."""
        for number, quote in enumerate(self.notation.quotes):
            if self.text.startswith(quote, self.at):
                return number
            if len(quote) > 1 and self._begins(quote):
                return None
        return -1

    def _open_string(self, number: int, phase: Phase) -> None:
        self._comma()
        self.at += len(self.notation.quotes[number])
        self.out.append('"')
        self.phase, self.number = phase, number

    def _token(self, pattern: re.Pattern[str]) -> str | None:
        """A word, with what is around it left off; None where it may go on, or is none."""
        match = pattern.match(self.text, self.at)
        if match is None or len(match[0]) > MOST_WORD:
            self._bad()
            return None
        if match.end() == len(self.text) and not self.final:
            return None
        self.at = match.end()
        return match[0].rstrip()

    def _word(self) -> None:
        start = self.at
        word = self._token(_BARE if self.notation.bare else _WORD)
        if word is None:
            return
        value = self.notation.words.get(word) or _number(word, self.notation)
        if value is None and self.notation.bare:
            value = f'"{escape(word)}"'
        if value is None:
            self.at = start
            self._bad()
            return
        self._comma()
        self.out.append(value)
        self.phase = "after"
        self._end_value()

    def _key(self) -> None:
        if self._closes(empty=self.phase == "key"):
            return
        arguments = self.open[-1] == "K"
        quote = -1 if arguments else self._quote()
        if quote is None:
            return
        if quote >= 0:
            self._open_string(quote, "key string")
        else:
            if not (arguments or self.notation.bare or self.notation.escapes == "python"):
                self._bad()
                return
            start = self.at
            key = self._token(_BARE_KEY if self.notation.bare else _WORD)
            if key is None:
                return
            if arguments and not key.isidentifier():
                self.at = start
                self._bad()
                return
            self._comma()
            self.out.append(f'"{escape(key)}"')
            self.phase = "colon"

    def _colon(self) -> None:
        if self.text[self.at] != ("=" if self.open[-1] == "K" else ":"):
            self._bad()
            return
        self.at += 1
        self.out.append(":" if self.notation.verbatim else ": ")
        self.phase = "value"

    def _after(self) -> None:
        if self._closes(empty=True):
            return
        if self.text[self.at] != ",":
            self._bad()
            return
        self.at += 1
        if self.notation.verbatim:
            self.out.append(",")
        self.phase = "next key" if self.open[-1] in "}K" else "next"


def _json_escape(written: str) -> str:
    """An escape, inside a JSON string: Unicode is not escaped, but for what has to be, and half characters."""
    return written if written[1] != "u" else escape(json.loads(f'"{written}"'))


def _python_escape(body: str) -> str:
    """What an escape of Python stands for, inside a JSON string."""
    if body in _PYTHON_ESCAPES:
        return escape(_PYTHON_ESCAPES[body])
    if body[0] in "xuU" and len(body) > 1:
        code = int(body[1:], 16)
    elif body[0] in "01234567":
        code = int(body, 8)
    else:
        # Python keeps the backslash before what is no escape.
        return escape("\\" + body)
    if code > 0x10FFFF:
        return "\\ufffd"
    # JSON writes the halves of a pair as Python does.
    return f"\\u{code:04x}" if 0xD800 <= code <= 0xDFFF else escape(chr(code))


def _number(word: str, notation: Notation) -> str | None:
    if NUMBER.fullmatch(word):
        return word
    if notation.escapes != "python" or not _PYTHON_NUMBER.fullmatch(word):
        return None
    try:
        return json.dumps(int(word, 0))
    except ValueError:
        pass
    try:
        return json.dumps(float(word), allow_nan=False)
    except ValueError:
        return None


def with_quotes(notation: Notation, markers: Mapping[str, str]) -> Notation:
    """The notation, its quotes as they are in the text."""
    return replace(notation, quotes=tuple(markers.get(quote, quote) for quote in notation.quotes))
