r"""Values as models write them → JSON, in pieces.

A notation is JSON, Python's literals, or Gemma's form of JSON. The reader keeps a stack of what is open, so a
marker, a quote or a brace inside a string is text.

    read_notation(JSON, NotationState(), '{"city": "Par', 0)  →  '{"city": "Par', all of it read, in a string
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from derender.parsing.characters import WHITESPACE

from .ends import at_end
from .literals import JSON_ESCAPES, PYTHON_ESCAPES, Escapes, escape, json_number, python_number

__all__ = [
    "CALL_ARGUMENTS",
    "GEMMA",
    "JSON",
    "PYTHON",
    "START",
    "Notation",
    "NotationResult",
    "NotationState",
    "end_notation",
    "read_notation",
    "to_json",
    "with_quotes",
]

MAX_DEPTH: Final = 200
"""Maximum nesting depth of a value."""
MAX_WORD: Final = 400
"""Maximum length of a number, literal, bare word or bare key."""


class Notation(Struct, frozen=True):
    """A way to write values."""

    quotes: tuple[str, ...]
    """What begins a string, and ends it."""
    escapes: Escapes | None
    """What a backslash in a string means; None for itself."""
    words: Mapping[str, str]
    """Word → JSON."""
    number: Callable[[str], str | None]
    """Writes a number as JSON."""
    verbatim: bool = False
    """Whether JSON stays as written, white space too. Otherwise white space is that of `json.dumps`."""
    tuples: bool = False
    """Whether parentheses make a list."""
    bare_strings: bool = False
    """Whether keys and strings may have no quotes, and have spaces in them."""
    open_strings: bool = False
    """Whether a string may lack its end before brackets and the end of the region."""


_WORDS: Final = {
    "true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"
}  # fmt: skip
JSON: Final = Notation(('"', "'"), JSON_ESCAPES, _WORDS, python_number, verbatim=True)
"""JSON, also as Python writes it: with single quotes, and `True`, `False` and `None`."""
PYTHON: Final = Notation(("'''", '"""', "'", '"'), PYTHON_ESCAPES, _WORDS, python_number, tuples=True)
"""Literals of Python. The arguments of a call are an object (`CALL_ARGUMENTS`)."""
GEMMA: Final = Notation(('<|"|>', '"'), None, _WORDS, json_number, bare_strings=True, open_strings=True)
"""Gemma's form of JSON: bare keys, and a token for the quote."""


def with_quotes(notation: Notation, characters: Mapping[str, str]) -> Notation:
    """Return the notation with its quotes as they are in the parsed text.

    Args:
        notation: The notation.
        characters: Marker text → character.
    """
    return replace(notation, quotes=tuple(characters.get(quote, quote) for quote in notation.quotes))


Phase = Literal[
    "value", "first", "next", "key", "next key", "colon", "after", "string", "key string", "done", "bad"
]
"""What comes next: a value; the first item of a list, or its end; the next item; a key, or the object's end;
the next key; the colon; a comma, or the end of what is open. Or where the reader is: inside a string that is
a value or a key; behind the value; behind a fault."""


class NotationState(
    Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="notation"
):
    """The state of reading a value."""

    phase: Phase = "value"
    open: Annotated[str, Meta(max_length=MAX_DEPTH, pattern=r"^[\])}K]*\Z")] = ""
    """What ends each open list and object, the innermost last. K stands for the end of a Python call's
    arguments."""
    quote: Annotated[int, Meta(ge=0, lt=4)] = 0
    """Which of the notation's quotes ends the open string."""

    def __post_init__(self) -> None:
        if not self.open and self.phase not in ("value", "string", "done", "bad"):
            raise ValueError("nothing is open")


START: Final = NotationState()
"""Before a value."""
CALL_ARGUMENTS: Final = NotationState("key", "K")
"""Behind the parenthesis that opens a call's arguments in Python."""


class NotationResult(NamedTuple):
    """What reading a piece of text gave."""

    json: str
    """JSON text, to be appended to what came before."""
    end: int
    """Where reading stopped: the end of the value, or text that has to wait for more."""
    state: NotationState


def read_notation(
    notation: Notation,
    state: NotationState,
    text: str,
    start: int,
    *,
    markers: Mapping[str, str] | None = None,
    ends: tuple[str, ...] = (),
    final: bool = False,
) -> NotationResult:
    """Read on, as far as the value goes or the text can be decided.

    If one of `ends` follows a complete item or member, what is still open ends there, too: brackets that are
    missing are added.

    Args:
        notation: How the value is written.
        state: The state after the text before.
        text: The text.
        start: Where to begin.
        markers: Character → marker text. In a string, markers are text.
        ends: What follows the value, as it is in the parsed text: a marker's character or its text, but no
            quote of the notation. It is not read.
        final: Whether the output ends with the text.
    """
    reader = _Reader(notation, state.phase, state.open, state.quote, text, start, markers or {}, ends, final)
    reader.run()
    return NotationResult("".join(reader.out), reader.at, reader.state())


def to_json(notation: Notation, text: str) -> str | None:
    """Write a whole value as JSON; None if it is no value of the notation."""
    text = text.strip(WHITESPACE)
    result = read_notation(notation, START, text, 0, final=True)
    return result.json if result.state.phase == "done" and result.end == len(text) else None


def end_notation(notation: Notation, state: NotationState, text: str) -> str | None:
    """Read the end of a value, and add brackets that are missing. Returns its JSON, or None if it has no end.

    Args:
        notation: How the value is written.
        state: The state after the text before.
        text: The rest of the value's text.
    """
    result = read_notation(notation, state, text + _END, 0, ends=(_END,), final=True)
    return result.json if result.state.phase == "done" and result.end == len(text) else None


_END: Final = "\udfff"
"""A character that stands for whatever follows a value."""
_SPACE: Final = re.compile(rf"[{WHITESPACE}]+")
_PLAIN: Final = re.compile(r"[^\"'\\<\x00-\x1f\ud800-\udfff]+")
"""Characters that mean themselves in a string, in all notations and in JSON."""
_PLAIN_IN_BRACKETS: Final = re.compile(r"[^\"'\\<\]}\x00-\x1f\ud800-\udfff]+")
"""The same, up to what may be the end of a list or object."""
_PLAIN_JSON: Final = re.compile(r'(?:[^"\\\x00-\x1f\ud800-\udfff]++|\\["\\/bfnrt])++')
"""What stays as it is in a JSON string."""
_WORD: Final = re.compile(r"[^\s,:=\[\]{}()\"'\ud800-\udfff]+")
_BARE: Final = re.compile(r"[^,\[\]{}\"\ud800-\udfff]+")
_BARE_KEY: Final = re.compile(r"[^:,\[\]{}\"\ud800-\udfff]+")
_COMMA: Final = re.compile(rf",[{WHITESPACE}]{{0,{MAX_WORD}}}")
_BRACKETS: Final = re.compile(rf"[\]}}][\]}}{WHITESPACE}]{{0,{MAX_WORD}}}")
_CLOSERS: Final = {"{": "}", "[": "]", "(": ")"}
_CLOSED: Final = {"}": "}", "]": "]", ")": "]", "K": "}"}
"""What is open → how JSON ends it."""


class _Reader(Struct):
    """One run of `read_notation`."""

    notation: Notation
    phase: Phase
    open: str
    quote: int
    text: str
    at: int
    markers: Mapping[str, str]
    ends: tuple[str, ...]
    final: bool
    out: list[str] = []

    def state(self) -> NotationState:
        inside = self.phase in ("string", "key string")
        return NotationState(self.phase, self.open, self.quote if inside else 0)

    def run(self) -> None:
        length = len(self.text)
        while self.at < length and self.phase not in ("done", "bad"):
            at, phase = self.at, self.phase
            if self.phase in ("string", "key string"):
                self._string()
            else:
                self._outside()
            if self.at == at and self.phase == phase:
                # The rest may be the beginning of something.
                break

    def _string(self) -> None:
        notation = self.notation
        quote = notation.quotes[self.quote]
        may_lack_end = notation.open_strings and self.phase == "string" and bool(self.ends)
        if notation.verbatim and quote == '"':
            plain = _PLAIN_JSON.match(self.text, self.at)
        else:
            plain = (_PLAIN_IN_BRACKETS if may_lack_end else _PLAIN).match(self.text, self.at)
        if plain:
            self.out.append(plain[0])
            self.at = plain.end()
            return
        character = self.text[self.at]
        if self.text.startswith(quote, self.at):
            self.at += len(quote)
            self._end_string()
        elif self._may_become(quote):
            return
        elif character == "\\" and notation.escapes:
            self._escape(notation.escapes)
        elif may_lack_end and (lacks_end := self._lacks_end()) is not False:
            if lacks_end:
                self._end_string()
        else:
            self.out.append(escape(self.markers.get(character, character)))
            self.at += 1

    def _may_become(self, text: str) -> bool:
        rest = len(self.text) - self.at
        return not self.final and rest < len(text) and text.startswith(self.text[self.at :])

    def _end_string(self) -> None:
        self.out.append('"')
        if self.phase == "string":
            self._end_value()
        else:
            self.phase = "colon"

    def _escape(self, escapes: Escapes) -> None:
        if not self.final and escapes.partial.fullmatch(self.text, self.at):
            return
        match = escapes.whole.match(self.text, self.at)
        # A backslash that begins no escape is itself.
        self.out.append(escapes.to_json(match[0]) if match else r"\\")
        self.at = match.end() if match else self.at + 1

    def _lacks_end(self) -> bool | None:
        """Return whether the open string ends here, without its quote; None if it takes more text to know.

        It does if brackets that end what is open follow, then the end of the region, and then more markup or
        the end of the output. Before other text, all that is quoted in the string.
        """
        brackets = _BRACKETS.match(self.text, self.at)
        if brackets is None or not self.open[::-1].startswith("".join(brackets[0].split())):
            return False
        ends = at_end(self.ends, self.text, brackets.end(), final=self.final)
        if not ends:
            return ends
        behind = brackets.end() + max(
            len(end) for end in self.ends if self.text.startswith(end, brackets.end())
        )
        if behind == len(self.text):
            return self.final or None
        return at_end(self.ends, self.text, behind, final=self.final)

    def _outside(self) -> None:
        if self.text[self.at] in WHITESPACE and (space := _SPACE.match(self.text, self.at)):
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

    def _close(self, *, allowed: bool) -> bool:
        """Read the end of the innermost list or object, if it is here.

        Args:
            allowed: Whether it may end here. It may not behind a comma that was written.
        """
        closer = self.open[-1]
        if self.text[self.at] != (")" if closer == "K" else closer) or not (
            allowed or not self.notation.verbatim
        ):
            return False
        self.out.append(_CLOSED[closer])
        self.open = self.open[:-1]
        self.at += 1
        self._end_value()
        return True

    def _end_value(self) -> None:
        self.phase = "after" if self.open else "done"

    def _comma(self) -> None:
        """Write the comma that was read before."""
        if self.phase in ("next", "next key") and not self.notation.verbatim:
            self.out.append(", ")

    def _value(self) -> None:
        character = self.text[self.at]
        if self.phase in ("first", "next") and self._close(allowed=self.phase == "first"):
            return
        quote = self._find_quote()
        if quote is None:
            return
        if quote >= 0:
            self._open_string(quote, "string")
        elif character in _CLOSERS and (character != "(" or self.notation.tuples):
            if len(self.open) >= MAX_DEPTH:
                self.phase = "bad"
                return
            self._comma()
            self.at += 1
            self.open += _CLOSERS[character]
            self.out.append("{" if character == "{" else "[")
            self.phase = "key" if character == "{" else "first"
        else:
            self._word()

    def _find_quote(self) -> int | None:
        """Return which quote is here; -1 for none, None if that takes more text to know."""
        for number, quote in enumerate(self.notation.quotes):
            if self.text.startswith(quote, self.at):
                return number
            if len(quote) > 1 and self._may_become(quote):
                return None
        return -1

    def _open_string(self, quote: int, phase: Phase) -> None:
        self._comma()
        self.at += len(self.notation.quotes[quote])
        self.out.append('"')
        self.phase, self.quote = phase, quote

    def _token(self, pattern: re.Pattern[str]) -> str | None:
        """Read a word, without the space around it; None if it may go on, or is none."""
        match = pattern.match(self.text, self.at)
        if match is None:
            self.phase = "bad"
            return None
        end = self._cut(match.end())
        if end is None:
            return None
        if end - self.at > MAX_WORD or end == self.at:
            self.phase = "bad"
            return None
        if end == len(self.text) and not self.final:
            return None
        word = self.text[self.at : end].rstrip()
        self.at = end
        return word

    def _cut(self, end: int) -> int | None:
        """Return where a word ends: at the latest where the region does. None if it takes more text to know."""
        word = self.text[self.at : min(end, self.at + MAX_WORD + 1)]
        if {text[0] for text in self.ends}.isdisjoint(word):
            return end
        for place in range(self.at, self.at + len(word)):
            ends = at_end(self.ends, self.text, place, final=self.final)
            if ends is not False:
                return place if ends else None
        return end

    def _word(self) -> None:
        start = self.at
        word = self._token(_BARE if self.notation.bare_strings else _WORD)
        if word is None:
            return
        value = self.notation.words.get(word) or self.notation.number(word)
        if value is None and self.notation.bare_strings:
            value = f'"{escape(word)}"'
        if value is None:
            self.at, self.phase = start, "bad"
            return
        self._comma()
        self.out.append(value)
        self._end_value()

    def _key(self) -> None:
        if self._close(allowed=self.phase == "key"):
            return
        arguments = self.open[-1] == "K"
        quote = -1 if arguments else self._find_quote()
        if quote is None:
            return
        if quote >= 0:
            self._open_string(quote, "key string")
            return
        start = self.at
        key = self._token(_BARE_KEY if self.notation.bare_strings else _WORD)
        if key is None:
            return
        if arguments and not key.isidentifier():
            self.at, self.phase = start, "bad"
            return
        self._comma()
        self.out.append(f'"{escape(key)}"')
        self.phase = "colon"

    def _colon(self) -> None:
        if self.text[self.at] != ("=" if self.open[-1] == "K" else ":"):
            self.phase = "bad"
            return
        self.at += 1
        self.out.append(":" if self.notation.verbatim else ": ")
        self.phase = "value"

    def _after(self) -> None:
        if self._close(allowed=True):
            return
        if self.text[self.at] != ",":
            self._end_region()
            return
        comma = _COMMA.match(self.text, self.at) if self.notation.verbatim else None
        if comma is None:
            self.at += 1
        else:
            follows = self.text[comma.end() : comma.end() + 1]
            if not follows and not self.final:
                return
            self.at = comma.end()
            if follows == self.open[-1]:
                self.out.append(comma[0][1:])
                return
            self.out.append(comma[0])
        self.phase = "next key" if self.open[-1] in "}K" else "next"

    def _end_region(self) -> None:
        """End all that is open if the region ends here."""
        ends = at_end(self.ends, self.text, self.at, final=self.final)
        if ends:
            self.out += [_CLOSED[closer] for closer in reversed(self.open)]
            self.open, self.phase = "", "done"
        elif ends is False:
            self.phase = "bad"
