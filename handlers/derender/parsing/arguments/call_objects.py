"""Tool calls written as JSON objects, alone or in a list → names and arguments, in pieces.

    {"name": "get_weather", "arguments": {"city": "Paris"}}

Keys come in any order. Arguments that come before the name are kept until the name is known, and their last
brace until the object has ended: it may yet turn out to be no call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from derender.parsing.characters import WHITESPACE

from .ends import at_end
from .notation import JSON, START, NotationState, read_notation

__all__ = [
    "CallObjectsResult",
    "CallObjectsState",
    "ObjectArguments",
    "ObjectEnd",
    "ObjectName",
    "read_call_objects",
]

Phase = Literal["begin", "key", "next key", "colon", "value", "after value", "between", "next", "done", "bad"]
"""What comes next: the first object, or a list; a key; a colon; a value; a comma, or the object's end; a
comma, or the list's end; the next object, or an empty list's end. Or where the reader is: behind the calls;
behind a fault."""

_ARGUMENTS: Final = ("arguments", "parameters")
_KEYS: Final = ("name", "id", "type", "index", "function", *_ARGUMENTS)
_MAX_TEXT: Final = 200
"""Maximum length of a key, name or id."""
_BARE_KEY: Final = re.compile(r"[A-Za-z_]\w*")
_SPACE: Final = re.compile(rf"[{WHITESPACE}]*")


class CallObjectsState(
    Struct, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="call_objects"
):
    """The state of reading calls. Only a reader changes it, and only its own copy."""

    phase: Phase = "begin"
    in_list: bool = False
    key: str = ""
    """The key whose value is read."""
    value: NotationState = START
    """The state of reading the value."""
    text: str = ""
    """The value so far: of a name or an id, or of arguments that are no object yet."""
    named: bool = False
    """Whether the open call's name was given."""
    arguments: str = ""
    """Arguments that came before the name, without their last brace."""
    has_arguments: bool = False
    """Whether the open call has arguments."""
    written_id: str = ""
    other_keys: bool = False
    """Whether the open call has keys that calls don't have. They may be its arguments, if it has no others."""


class ObjectName(NamedTuple):
    """A call begins."""

    name: str
    written_id: str
    offered: bool = False
    """Whether the client must have offered the tool: its name is written amiss, as `function`."""


class ObjectArguments(NamedTuple):
    """More of the call's arguments."""

    json: str


class ObjectEnd(NamedTuple):
    """The call ends."""


class CallObjectsResult(NamedTuple):
    """What reading a piece of text gave."""

    found: list[ObjectName | ObjectArguments | ObjectEnd]
    end: int
    """Where reading stopped: the end of the calls, or text that has to wait for more."""
    state: CallObjectsState


def read_call_objects(
    state: CallObjectsState,
    text: str,
    start: int,
    *,
    markers: Mapping[str, str],
    known_keys: bool,
    ends: tuple[str, ...] = (),
    final: bool = False,
) -> CallObjectsResult:
    """Read on, to the next name or end of a call, or as far as the text can be decided.

    If one of `ends` follows a complete value, all that is open ends there, too: brackets that are missing are
    added.

    Args:
        state: The state after the text before.
        text: The text.
        start: Where to begin.
        markers: Character → marker text. In a string, markers are text.
        known_keys: Whether an object with a key that calls don't have is no call.
        ends: What follows the calls, as it is in the parsed text: a marker's character or its text. It is not
            read.
        final: Whether the output ends with the text.
    """
    reader = _Reader(replace(state), text, start, markers, known_keys, ends, final)
    reader.run()
    return CallObjectsResult(reader.found, reader.at, reader.state)


class _Reader(Struct):
    """One run of `read_call_objects`."""

    state: CallObjectsState
    text: str
    at: int
    markers: Mapping[str, str]
    known_keys: bool
    ends: tuple[str, ...]
    final: bool
    found: list[ObjectName | ObjectArguments | ObjectEnd] = []

    def run(self) -> None:
        while self.state.phase not in ("done", "bad") and not self._must_stop():
            before = (self.at, self.state.phase)
            if self.state.phase != "value" and (space := _SPACE.match(self.text, self.at)):
                self.at = space.end()
            if self.at >= len(self.text):
                if self.final and self.state.phase == "after value" and self.state.has_arguments:
                    # The call's last brace is missing.
                    self._end()
                return
            self._step()
            if (self.at, self.state.phase) == before:
                # The rest may be the beginning of something.
                return

    def _must_stop(self) -> bool:
        """Return whether what was found may change how the text after it is read."""
        return bool(self.found) and not isinstance(self.found[-1], ObjectArguments)

    def _step(self) -> None:
        match self.state.phase:
            case "begin" | "next":
                self._begin()
            case "key" | "next key":
                self._key()
            case "colon":
                self.state.phase = "value" if self._read(":") else "bad"
            case "value":
                self._value()
            case "after value":
                self._after_value()
            case _:
                self._after_call()

    def _read(self, expected: str) -> bool:
        """Read a character, if it is the one that is here."""
        if self.text[self.at] != expected:
            return False
        self.at += 1
        return True

    def _begin(self) -> None:
        state = self.state
        if not state.in_list and self._read("["):
            state.in_list, state.phase = True, "next"
        elif self._read("{"):
            self.state = CallObjectsState("key", state.in_list)
        elif state.in_list and self._read("]"):
            # The list is empty, or its last comma is one too many.
            state.phase = "done"
        else:
            state.phase = "bad"

    def _key(self) -> None:
        state = self.state
        if self._read("}"):
            self._end()
            return
        written, end = self._read_key()
        if end - self.at > _MAX_TEXT or written == "":
            state.phase = "bad"
        elif written is not None:
            state.key, state.text, state.value = _to_text(written), "", START
            state.other_keys |= state.key not in _KEYS
            if state.other_keys and self.known_keys:
                state.phase = "bad"
            else:
                self.at, state.phase = end, "colon"

    def _read_key(self) -> tuple[str | None, int]:
        """Read a key, in quotes or bare. Returns its JSON, empty if it is no key, or None if it may go on; and
        where it ends."""
        if bare := _BARE_KEY.match(self.text, self.at):
            may_go_on = bare.end() == len(self.text) and not self.final
            return None if may_go_on else f'"{bare[0]}"', bare.end()
        result = read_notation(JSON, START, self.text, self.at, markers=self.markers, final=self.final)
        match result.state.phase:
            case "done" if result.json[0] == '"':
                return result.json, result.end
            case "string":
                return None, result.end
            case _:
                return "", result.end

    def _value(self) -> None:
        state = self.state
        result = read_notation(
            JSON,
            state.value,
            self.text,
            self.at,
            markers=self.markers,
            ends=self.ends,
            final=self.final,
        )
        self.at, state.value = result.end, result.state
        if state.key in _ARGUMENTS:
            self._arguments(result.json)
        elif state.key in ("name", "id"):
            state.text += result.json
        elif state.key == "function" and not state.named:
            # A name if it is a string. Of other values, the first character tells.
            text = (state.text + result.json).lstrip(WHITESPACE)
            state.text = text[: _MAX_TEXT + 1 if text[:1] == '"' else 1]
        if result.state.phase == "bad" or (state.key in ("name", "id") and len(state.text) > _MAX_TEXT):
            state.phase = "bad"
        elif result.state.phase == "done":
            self._end_value()

    def _arguments(self, more: str) -> None:
        state = self.state
        if not state.has_arguments and not state.text:
            more = more.lstrip(WHITESPACE)
        if state.has_arguments or (state.text + more)[:1] == "{":
            # Of two, the first counts.
            if not state.has_arguments or state.text:
                state.has_arguments, state.text = True, "{"
                self._give(more.removesuffix("}") if state.value.phase == "done" else more)
        else:
            # null, or arguments written as a string.
            state.text += more

    def _give(self, more: str) -> None:
        if not more:
            return
        if self.state.named:
            self.found.append(ObjectArguments(more))
        else:
            self.state.arguments += more

    def _end_value(self) -> None:
        state = self.state
        value = state.text.strip(WHITESPACE)
        state.phase = "after value"
        if state.key == "name" and not state.named:
            self._name(_to_text(value))
        elif state.key == "function" and not state.named and value[:1] == '"' and 2 < len(value) <= _MAX_TEXT:
            self._name(_to_text(value), offered=True)
        elif state.key == "id":
            state.written_id = _to_text(value)
        elif state.key in _ARGUMENTS and not state.has_arguments:
            self._whole_arguments(value)
        state.text, state.key = "", ""

    def _name(self, name: str, *, offered: bool = False) -> None:
        state = self.state
        if not name:
            state.phase = "bad"
            return
        self.found.append(ObjectName(name, state.written_id, offered))
        arguments, state.arguments, state.named = state.arguments, "", True
        self._give(arguments)

    def _whole_arguments(self, value: str) -> None:
        """Read arguments that are null or an empty string, or an object written as a string."""
        if value in ("null", '""'):
            return
        written = _to_text(value).strip()
        result = read_notation(JSON, START, written, 0, final=True)
        if result.state.phase == "done" and result.end == len(written) and result.json[:1] == "{":
            self.state.has_arguments = True
            self._give(result.json.removesuffix("}"))
        else:
            self.state.phase = "bad"

    def _after_value(self) -> None:
        if self._read(","):
            self.state.phase = "next key"
        elif self._read("}") or (ends := self._at_end()):
            self._end()
        elif ends is False:
            self.state.phase = "bad"

    def _after_call(self) -> None:
        if self._read(","):
            self.state.phase = "begin"
        elif self._read("]") or (ends := self._at_end()):
            self.state.phase = "done"
        elif ends is False:
            self.state.phase = "bad"

    def _at_end(self) -> bool | None:
        return at_end(self.ends, self.text, self.at, final=self.final)

    def _end(self) -> None:
        state = self.state
        if not state.named or (state.other_keys and not state.has_arguments):
            state.phase = "bad"
            return
        self.found += [ObjectArguments("}" if state.has_arguments else "{}"), ObjectEnd()]
        self.state = CallObjectsState("between" if state.in_list else "done", state.in_list)


def _to_text(value: str) -> str:
    """Return the text of a JSON string; empty for another value, and for text that is no Unicode."""
    if value[:1] != '"':
        return ""
    try:
        text: str = json.loads(value)
    except ValueError:
        # Only a forged state leads here.
        return ""
    return text if text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text) else ""
