"""The state of parsing as JSON, for its way between requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from derender.errors import BadRequest
from derender.parsing.arguments.call_objects import CallObjectsState
from derender.parsing.arguments.notation import JSON, NotationState
from derender.parsing.arguments.values import ValueState

from .format import Arguments, Body, CallObjects, Markup, Preface, Shows, Text, Value
from .lifecycle import Status
from .state import BodyState, ParserState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from derender.parsing.arguments.notation import Notation

    from .format import Region
    from .grammar import Grammar
    from .parser import Parser
    from .state import OpenCalls

__all__ = ["dump_state", "load_state"]

_READING: Final[Mapping[type, type]] = {
    Text: type(None),
    Markup: type(None),
    Value: ValueState,
    Body: BodyState,
    Preface: BodyState,
    Arguments: NotationState,
    CallObjects: CallObjectsState,
}
"""Kind of region → what is read in it."""


def dump_state(parser: Parser, state: ParserState) -> dict[str, Any]:
    """Return the state as JSON values. Text that contains markers is a list of texts and token ids."""
    dumped: dict[str, Any] = msgspec.to_builtins(state)
    if "held" in dumped:
        dumped["held"] = _dump_text(parser.grammar, state.held)
    if state.calls and state.calls.raw:
        dumped["calls"]["raw"] = _dump_text(parser.grammar, "".join(state.calls.raw))
    return dumped


def load_state(parser: Parser, dumped: object) -> ParserState:
    """Read a state that was dumped.

    Raises:
        BadRequest: It was not made by this parser.
    """
    try:
        state = msgspec.convert(_load_texts(parser.grammar, dumped), ParserState)
        _check(parser, state)
    except (ValueError, TypeError, KeyError) as error:
        raise BadRequest("the state was not made by this parser") from error
    return state


def _load_texts(grammar: Grammar, dumped: object) -> object:
    if not isinstance(dumped, dict):
        return dumped
    values = {**dumped}
    if "held" in values:
        values["held"] = _load_text(grammar, values["held"])
    calls = values.get("calls")
    if isinstance(calls, dict) and "raw" in calls:
        values["calls"] = {**calls, "raw": [_load_text(grammar, calls["raw"])]}
    return values


def _dump_text(grammar: Grammar, text: str) -> str | list[str | int]:
    # In formats whose markers are read as text, they are text here, too.
    ids = {character: token_id for token_id, character in grammar.markers.items() if len(character) == 1}
    pieces = re.split(f"([{''.join(map(re.escape, ids))}])", text) if ids else [text]
    return text if len(pieces) == 1 else [ids.get(piece, piece) for piece in pieces if piece]


def _load_text(grammar: Grammar, dumped: object) -> str:
    pieces: list[Any] = dumped if isinstance(dumped, list) else [dumped]
    # Encoding and decoding refuses lone surrogates, which would be read as markers.
    return "".join(
        [piece.encode().decode() if isinstance(piece, str) else grammar.markers[piece] for piece in pieces]
    )


def _check(parser: Parser, state: ParserState) -> None:
    """Check constraints that the types can't express."""
    regions, calls = parser.grammar.regions, state.calls
    region = regions[state.region]
    if not isinstance(calls and calls.reading, _READING[type(region)]):
        raise TypeError("the region and what is read in it differ")
    if state.called and not state.emitted:
        raise ValueError("no call was emitted")
    if calls is None:
        return
    read = _read_notation(region, calls)
    if read is not None and read[1].quote >= len(read[0].quotes):
        raise ValueError("the notation has no such quote")
    origin = regions[calls.origin]
    if isinstance(region, Text) is not (calls.status is Status.WAITING) or not (
        calls.origin == "content" or (isinstance(origin, Text) and origin.shows is Shows.REASONING)
    ):
        raise ValueError("calls can't be open or begin in this region")
    if (calls.status is Status.STREAMED or calls.unended) and not state.emitted:
        raise ValueError("no call was emitted")
    if (
        calls.status in (Status.BUFFERED, Status.STREAMED)
        and isinstance(region, Value | Arguments)
        and not calls.call
    ):
        raise ValueError("no call is open")


def _read_notation(region: Region, calls: OpenCalls) -> tuple[Notation, NotationState] | None:
    """Return the notation that a region is read in, and the state of reading it."""
    match region, calls.reading:
        case Arguments(notation=notation), NotationState() as reading:
            return notation, reading
        case Value(), ValueState(notation=reading):
            return JSON, reading
        case CallObjects(), CallObjectsState(value=reading):
            return JSON, reading
    return None
