"""The value of a parameter that a format writes as bare text → JSON, in pieces.

A string is passed on as it comes. What may be something else is kept until its end says what it is; past a
bound it is what it began as.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import Struct

from derender.parsing.engine.patterns import with_markers

from .notation import JSON, NotationState, escape, read
from .schema import MOST_HELD, typed

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ValueState", "Written", "begin_value", "end_value", "read_value"]

Form = Literal["string", "json", "kept"]
Written = Literal["string", "json"]
"""What a model may write of a value's type, in formats that have it."""


class ValueState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where reading a value is."""

    form: Form = "kept"
    """Being written as a string; as JSON; or not known yet."""
    kept: str = ""
    """The text, while the form is not known."""
    notation: NotationState = NotationState()
    """Where its JSON is."""


class ReadValue(NamedTuple):
    """What reading a piece of a value gave."""

    json: str
    state: ValueState


_STRING: Final = frozenset({"string"})


def begin_value(types: frozenset[str], written: Written | None) -> ReadValue:
    """Begin a value.

    Args:
        types: The JSON types that its schema allows.
        written: What the model wrote of its type.
    """
    if written == "string" or (written is None and types == _STRING):
        return ReadValue('"', ValueState("string"))
    return ReadValue("", ValueState())


def read_value(
    state: ValueState, text: str, types: frozenset[str], markers: Mapping[str, str], *, keep: bool
) -> ReadValue:
    """Read more of a value's text.

    Args:
        state: Where the text before it has led.
        text: The text; all of it is the value's.
        types: The JSON types that its schema allows.
        markers: Characters that stand for markers → the markers' text.
        keep: Whether to keep the text however long, so that it can be a string whatever follows.
    """
    if state.form == "string":
        return ReadValue(escape(with_markers(text, markers)), state)
    if state.form == "json":
        text = state.kept + text
        got = read(JSON, state.notation, text, 0, markers=markers)
        rest = with_markers(text[got.end :], markers)
        if got.state.phase in ("done", "bad"):
            # What follows matters in that it is there.
            rest = rest.strip(" \t\r\n")[:1]
        return ReadValue(got.json, ValueState("json", rest, got.state))
    kept = state.kept + with_markers(text, markers)
    if keep or len(kept) <= MOST_HELD:
        return ReadValue("", ValueState("kept", kept))
    # However much has come: it is decided by as much as had to be waited for.
    first, rest = kept[: MOST_HELD + 1], kept[MOST_HELD + 1 :]
    begun = _begun(first, types)
    more = read_value(begun.state, rest, types, {}, keep=keep)
    return ReadValue(begun.json + more.json, more.state)


def _begun(first: str, types: frozenset[str]) -> ReadValue:
    """What a long value is, by its beginning."""
    value = first.lstrip(" \t\r\n")
    if value[:1] in ("{", "[") and ("object" if value[0] == "{" else "array") in types:
        got = read(JSON, NotationState(), value, 0)
        rest = value[got.end :]
        if got.state.phase != "bad" and (got.state.phase != "done" or not rest.strip(" \t\r\n")):
            return ReadValue(got.json, ValueState("json", rest, got.state))
    return ReadValue(f'"{escape(first)}', ValueState("string"))


def end_value(state: ValueState, types: frozenset[str], written: Written | None) -> str | None:
    """End a value: the rest of its JSON, or None where it began as JSON and is none."""
    match state.form:
        case "string":
            return '"'
        case "json":
            return None if state.notation.phase != "done" or state.kept.strip(" \t\r\n") else ""
        case _:
            return typed(state.kept, types, as_written=written == "json")
