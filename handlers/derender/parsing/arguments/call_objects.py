"""Tool calls that are JSON objects, alone or in a list → names and arguments, in pieces.

    {"name": "get_weather", "arguments": {"city": "Paris"}}

Keys come in any order; arguments that come before the name are kept until it is known.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import Struct

from .notation import JSON, NotationState, read

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CallArgumentsRead", "CallEnd", "CallName", "CallsRead", "CallsState", "read_calls"]

Phase = Literal["begin", "key", "next key", "colon", "value", "after value", "between", "next", "done", "bad"]
"""What comes next: the first object or a list; a key; a colon; a value; a comma or the object's end; a
comma or the list's end; an object."""

_ARGUMENTS: Final = ("arguments", "parameters")
_KEYS: Final = ("name", "id", "type", "index", "function", *_ARGUMENTS)
_MOST_TEXT: Final = 200
"""Longest key, name or id."""
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class CallsState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where reading calls is."""

    phase: Phase = "begin"
    listed: bool = False
    """Whether a list is open."""
    key: str = ""
    """The key whose value is read."""
    value: NotationState = NotationState()
    """Where the value is."""
    text: str = ""
    """The value so far, of a name or an id, or of arguments that are kept."""
    named: bool = False
    """Whether the open call's name was given."""
    arguments: str = ""
    """Arguments that came before the name."""
    begun: bool = False
    """Whether the open call has arguments."""
    written_id: str = ""


class CallName(NamedTuple):
    """A call begins."""

    name: str
    written_id: str


class CallArgumentsRead(NamedTuple):
    """More of its arguments."""

    json: str


class CallEnd(NamedTuple):
    """It ends."""


class CallsRead(NamedTuple):
    """What reading a piece of text gave."""

    found: list[CallName | CallArgumentsRead | CallEnd]
    end: int
    """Where reading stopped: the end of the calls, or what has to wait for more text."""
    state: CallsState


def read_calls(
    state: CallsState,
    text: str,
    start: int,
    *,
    markers: Mapping[str, str],
    known_keys: bool,
    final: bool = False,
) -> CallsRead:
    """Read on: to the next name or end of a call, or as far as the text can be decided.

    Args:
        state: Where the text before it has led.
        text: The text.
        start: Where to begin.
        markers: Characters that stand for markers → the markers' text. In a string, they are text.
        known_keys: Whether an object with a key that calls don't have is no call.
        final: Whether the output ends with the text.
    """
    reader = _Reader(state, text, start, markers, known_keys, final)
    reader.run()
    return CallsRead(reader.found, reader.at, reader.state())


@dataclass(slots=True)
class _Call:
    key: str = ""
    value: NotationState = field(default_factory=NotationState)
    text: str = ""
    named: bool = False
    arguments: str = ""
    begun: bool = False
    written_id: str = ""


class _Reader:
    """One run of `read_calls`."""

    def __init__(
        self, state: CallsState, text: str, at: int, markers: Mapping[str, str], known_keys: bool, final: bool
    ) -> None:
        self.phase: Phase = state.phase
        self.listed = state.listed
        self.call = _Call(
            state.key, state.value, state.text, state.named, state.arguments, state.begun, state.written_id
        )
        self.text, self.at, self.markers, self.known_keys, self.final = text, at, markers, known_keys, final
        self.found: list[CallName | CallArgumentsRead | CallEnd] = []

    def state(self) -> CallsState:
        call = self.call
        return CallsState(
            self.phase, self.listed, call.key, call.value, call.text, call.named, call.arguments, call.begun,
            call.written_id,
        )  # fmt: skip

    def run(self) -> None:
        while self.phase not in ("done", "bad") and not self._stops():
            before = self.at
            if self.phase != "value":
                space = _SPACE.match(self.text, self.at)
                self.at = space.end() if space else self.at
            if self.at >= len(self.text):
                return
            self._step()
            if self.at == before and self.phase not in ("done", "bad"):
                return

    def _stops(self) -> bool:
        """Whether what was found may change how the text after it is read."""
        return bool(self.found) and not isinstance(self.found[-1], CallArgumentsRead)

    def _step(self) -> None:
        match self.phase:
            case "begin" | "next":
                self._begin()
            case "key" | "next key":
                self._key()
            case "colon":
                self.phase = "value" if self._read(":") else "bad"
            case "value":
                self._value()
            case "after value":
                self._after_value()
            case "between":
                self._between()

    def _read(self, expected: str) -> bool:
        """Read a character, if it is the one that is here."""
        if self.text[self.at] != expected:
            return False
        self.at += 1
        return True

    def _begin(self) -> None:
        if not self.listed and self._read("["):
            self.listed = True
            self.phase = "next"
        elif self._read("{"):
            self.call = _Call()
            self.phase = "key"
        elif self.listed and self.phase == "next" and self._read("]"):
            self.phase = "done"
        else:
            self.phase = "bad"

    def _key(self) -> None:
        if self.phase == "key" and self._read("}"):
            self._end()
            return
        got = read(JSON, NotationState(), self.text, self.at, markers=self.markers, final=self.final)
        if self.text[self.at] != '"' or got.state.phase == "bad" or got.end - self.at > _MOST_TEXT:
            self.phase = "bad"
        elif got.state.phase == "done":
            self.at = got.end
            self.call.key = _text(got.json)
            self.call.text, self.call.value = "", NotationState()
            self.phase = "colon" if self.call.key in _KEYS or not self.known_keys else "bad"

    def _value(self) -> None:
        call = self.call
        got = read(JSON, call.value, self.text, self.at, markers=self.markers, final=self.final)
        self.at, call.value = got.end, got.state
        if call.key in _ARGUMENTS:
            self._arguments(got.json)
        elif call.key in ("name", "id"):
            call.text += got.json
            if len(call.text) > _MOST_TEXT:
                self.phase = "bad"
        if got.state.phase == "bad":
            self.phase = "bad"
        elif got.state.phase == "done" and self.phase != "bad":
            self._end_value()

    def _arguments(self, more: str) -> None:
        call = self.call
        if not call.begun and not call.text:
            more = more.lstrip(" \t\r\n")
        if call.begun or (call.text + more)[:1] == "{":
            # Arguments proper; of two, the first.
            if not call.begun or call.text:
                call.begun = True
                call.text = "{"
                self._give(more)
        else:
            # null, or arguments that are written as a string.
            call.text += more

    def _give(self, more: str) -> None:
        if not more:
            return
        if self.call.named:
            self.found.append(CallArgumentsRead(more))
        else:
            self.call.arguments += more

    def _end_value(self) -> None:
        call = self.call
        value = call.text.strip(" \t\r\n")
        self.phase = "after value"
        if call.key == "name" and not call.named:
            name = _text(value)
            if not name:
                self.phase = "bad"
                return
            call.named = True
            self.found.append(CallName(name, call.written_id))
            arguments, call.arguments = call.arguments, ""
            self._give(arguments)
        elif call.key == "id":
            call.written_id = _text(value)
        elif call.key in _ARGUMENTS and not call.begun:
            self._whole_arguments(value)
        call.text, call.key = "", ""

    def _whole_arguments(self, value: str) -> None:
        """Arguments that are null, or an object written as a string."""
        if value == "null":
            return
        written = _text(value)
        inner = read(JSON, NotationState(), written.strip(), 0, final=True)
        if inner.state.phase == "done" and inner.end == len(written.strip()) and inner.json[:1] == "{":
            self.call.begun = True
            self._give(inner.json)
        else:
            self.phase = "bad"

    def _after_value(self) -> None:
        if self._read(","):
            self.phase = "next key"
        elif self._read("}"):
            self._end()
        else:
            self.phase = "bad"

    def _end(self) -> None:
        if not self.call.named:
            self.phase = "bad"
            return
        if not self.call.begun:
            self.found.append(CallArgumentsRead("{}"))
        self.found.append(CallEnd())
        self.call = _Call()
        self.phase = "between" if self.listed else "done"

    def _between(self) -> None:
        if self._read(","):
            self.phase = "begin"
        elif self._read("]"):
            self.phase = "done"
        else:
            self.phase = "bad"


def _text(value: str) -> str:
    """The text of a JSON string; empty for another value, and for what is no Unicode."""
    if value[:1] != '"':
        return ""
    try:
        text: str = json.loads(value)
    except ValueError:
        return ""
    return text if text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text) else ""
