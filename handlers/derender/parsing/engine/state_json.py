"""The state as JSON, on its way between calls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from derender.errors import BadRequest

from .format import Yields
from .state import ParserState

if TYPE_CHECKING:
    from .grammar import Grammar
    from .machine import Parser

__all__ = ["dump_state", "load_state"]


def dump_state(parser: Parser, state: ParserState) -> dict[str, Any]:
    """The state as JSON values. Text that holds markers is a list: texts, and the markers' token ids."""
    dumped: dict[str, Any] = msgspec.to_builtins(state)
    for values, name in _texts(dumped):
        values[name] = _pieces(parser.grammar, values[name])
    return dumped


def load_state(parser: Parser, dumped: object) -> ParserState:
    """The state again.

    Raises:
        BadRequest: It is no state of this parser.
    """
    try:
        return _checked(parser, msgspec.convert(_with_texts(parser.grammar, dumped), ParserState))
    except (ValueError, TypeError, KeyError) as error:
        raise BadRequest("the state was not made by this parser") from error


def _with_texts(grammar: Grammar, dumped: object) -> object:
    """The dumped state, its text as it is parsed."""
    if not isinstance(dumped, dict):
        return dumped
    calls = dumped.get("calls")
    values = {**dumped, "calls": {**calls}} if isinstance(calls, dict) else {**dumped}
    for each, name in _texts(values):
        each[name] = _text(grammar, each[name])
    return values


def _texts(values: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Where text is that may hold markers."""
    places = [(values, "held"), (values.get("calls"), "raw")]
    return [(each, name) for each, name in places if isinstance(each, dict) and name in each]


def _pieces(grammar: Grammar, text: str) -> str | list[str | int]:
    ids = {character: token_id for token_id, character in grammar.markers.items()}
    pieces = re.split(f"([{''.join(map(re.escape, ids))}])", text) if ids else [text]
    return text if len(pieces) == 1 else [ids.get(piece, piece) for piece in pieces if piece]


def _text(grammar: Grammar, dumped: object) -> str:
    pieces: list[Any] = dumped if isinstance(dumped, list) else [dumped]
    # Encoded and decoded, for text that is no Unicode would be read as a marker.
    return "".join(
        [piece.encode().decode() if isinstance(piece, str) else grammar.markers[piece] for piece in pieces]
    )


_INSIDE: Final = {
    Yields.VALUE: "value",
    Yields.ARGUMENTS: "arguments",
    Yields.CALLS: "objects",
    Yields.BODY: "body",
}
"""What a region yields → what the state holds inside it, and only there."""


def _checked(parser: Parser, state: ParserState) -> ParserState:
    """Refuse what the types don't."""
    regions, calls = parser.grammar.regions, state.calls
    yields = regions[state.region].yields
    inside = _INSIDE.get(yields)
    sound = all((getattr(state, name) is not None) == (name == inside) for name in _INSIDE.values())
    if calls is None:
        sound = sound and inside is None
    else:
        began = calls.began == "content" or regions[calls.began].yields is Yields.REASONING
        opened = bool(calls.kept or calls.muted) or inside not in ("value", "arguments")
        sound = (
            sound
            and began
            and yields not in (Yields.CONTENT, Yields.REASONING)
            and (calls.status != "given" or state.number > 0 or calls.muted)
            and (calls.status != "kept" or opened)
        )
    if not sound:
        raise ValueError("the parts contradict each other")
    return state
