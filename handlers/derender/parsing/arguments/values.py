"""The value of a parameter that a format writes as bare text → JSON, in pieces.

A string is passed on as it arrives. A value that may be something else is kept until its end tells what it
is; past a bound, its beginning decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import Struct

from derender.parsing.characters import WHITESPACE, decode_markers

from .literals import escape
from .notation import JSON, START, NotationState, end_notation, read_notation
from .schema import MAX_UNDECIDED, coerce

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DeclaredType", "ValueState", "begin_value", "end_value", "read_value"]

DeclaredType = Literal["string", "json"]
"""The type that the model itself declares for a value, in formats that have it."""


class ValueState(
    Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="value"
):
    """The state of reading a value."""

    form: Literal["undecided", "string", "json"] = "undecided"
    """How the value is written."""
    kept: str = ""
    """The text of an undecided value; of JSON, the text that has to wait."""
    notation: NotationState = START
    """The state of reading JSON."""

    @property
    def is_broken(self) -> bool:
        """Whether it began as JSON and turned out not to be."""
        phase = self.notation.phase
        return phase == "bad" or (phase == "done" and bool(self.kept.strip(WHITESPACE)))


class ValueResult(NamedTuple):
    """What reading a piece of a value gave."""

    json: str
    state: ValueState


_STRING: Final = frozenset({"string"})


def begin_value(types: frozenset[str], declared: DeclaredType | None) -> ValueResult:
    """Begin a value.

    Args:
        types: The JSON types that its schema allows.
        declared: The type that the model declares.
    """
    if declared == "string" or (declared is None and types == _STRING):
        return ValueResult('"', ValueState("string"))
    return ValueResult("", ValueState())


def read_value(
    state: ValueState, text: str, types: frozenset[str], markers: Mapping[str, str], *, whole: bool
) -> ValueResult:
    """Read more of a value's text.

    Args:
        state: The state after the text before.
        text: The text; all of it belongs to the value.
        types: The JSON types that its schema allows.
        markers: Character → marker text.
        whole: Whether to keep an undecided value to its end, however long it is.
    """
    if state.form == "string":
        return ValueResult(escape(decode_markers(text, markers)), state)
    if state.form == "json":
        text = state.kept + text
        result = read_notation(JSON, state.notation, text, 0, markers=markers)
        rest = decode_markers(text[result.end :], markers)
        return ValueResult(result.json, ValueState("json", rest, result.state))
    kept = state.kept + decode_markers(text, markers)
    if whole or len(kept) <= MAX_UNDECIDED:
        return ValueResult("", ValueState("undecided", kept))
    # Decide by as much as had to be waited for, however much there is: any split gives the same.
    first, rest = kept[: MAX_UNDECIDED + 1], kept[MAX_UNDECIDED + 1 :]
    decided = _decide(first, types)
    more = read_value(decided.state, rest, types, {}, whole=whole)
    return ValueResult(decided.json + more.json, more.state)


def _decide(first: str, types: frozenset[str]) -> ValueResult:
    """Decide by its beginning what a long value is."""
    value = first.lstrip(WHITESPACE)
    if value[:1] in ("{", "[") and ("object" if value[0] == "{" else "array") in types:
        result = read_notation(JSON, START, value, 0)
        rest = value[result.end :]
        phase = result.state.phase
        if phase != "bad" and (phase != "done" or not rest.strip(WHITESPACE)):
            return ValueResult(result.json, ValueState("json", rest, result.state))
    return ValueResult(f'"{escape(first)}', ValueState("string"))


def end_value(state: ValueState, types: frozenset[str], declared: DeclaredType | None) -> str | None:
    """End a value. Returns the rest of its JSON, or None if it began as JSON and turned out not to be.

    Brackets that are missing are added, if the value can't be a string.
    """
    match state.form:
        case "string":
            return '"'
        case "json":
            if state.notation.phase == "done":
                return None if state.kept.strip(WHITESPACE) else ""
            return None if "string" in types else end_notation(JSON, state.notation, state.kept)
        case _:
            return coerce(state.kept, types, declared_json=declared == "json")
