"""Where an output begins, as far as its prompt says."""

from __future__ import annotations

import dataclasses
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from derender.decoding.detokenizer import DetokenizerState
from derender.decoding.pieces import read_pieces

from .machine import parse
from .state import ParserState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.decoding.pieces import Piece

    from .machine import Parser

__all__ = ["start"]

_MOST_READ: Final = 4096
"""Ids of the prompt's end that are read: what opens the model's message is there."""


def start(parser: Parser, prompt_token_ids: Sequence[int] | None) -> ParserState:
    """The state before an output.

    The end of a prompt opens the model's message, and often more: the reasoning, or its end. It is read
    like output.

    Args:
        parser: How the output is parsed.
        prompt_token_ids: The prompt, or a suffix of it.
    """
    unknown = ParserState(parser.start)
    if not prompt_token_ids:
        return unknown
    grammar = parser.grammar
    pieces, whole = (_after_anchor if grammar.anchor else _after_control)(parser, prompt_token_ids)
    # A call that the prompt begins is the output's.
    keeping = dataclasses.replace(parser, whole_calls=True, one_call=False)
    _, state = parse(keeping, ParserState("content"), pieces)
    marked = any(marker in state.held for marker in grammar.marker_texts)
    scanner = grammar.scanners.get(state.region)
    if not marked and not (scanner and scanner.search(state.held, 0, final=True)):
        # The prompt's own text, not the output's.
        state = replace(state, held="")
    if not (state.marked or state.held or whole):
        return unknown
    return replace(
        state,
        region=parser.grammar.after_prompt.get(state.region, state.region),
        space="",
        answered=False,
        reasoned=False,
        marked=False,
        number=0,
        # What is read when it ends needs its beginning.
        calls=state.calls and (state.calls if state.body else replace(state.calls, raw="")),
    )


def _after_control(parser: Parser, prompt_token_ids: Sequence[int]) -> tuple[list[Piece], bool]:
    """The prompt after its last control token that is no marker, and whether there is one."""
    grammar = parser.grammar
    tail: list[int] = []
    whole = False
    for token_id in islice(reversed(prompt_token_ids), _MOST_READ):
        if whole := token_id in grammar.control and token_id not in grammar.markers:
            break
        tail.append(token_id)
        if whole := token_id == grammar.turn:
            break
    return _pieces(parser, tail[::-1]), whole


def _after_anchor(parser: Parser, prompt_token_ids: Sequence[int]) -> tuple[list[Piece], bool]:
    """The prompt after the last place where the format says that a message begins, and whether there is one."""
    anchor, markers = parser.grammar.anchor, parser.grammar.markers
    assert anchor is not None
    pieces = _pieces(parser, prompt_token_ids[-_MOST_READ:])
    text = "".join([piece if isinstance(piece, str) else markers[piece] for piece in pieces])
    begin = place = 0
    whole = False
    while place <= len(text) and (found := anchor.search(text, place, final=True)):
        begin, place, whole = found.end, max(found.end, found.start + 1), True
    return [text[begin:]], whole


def _pieces(parser: Parser, token_ids: Sequence[int]) -> list[Piece]:
    decoding = DetokenizerState(text_started=True)
    pieces, _ = read_pieces(parser.grammar.vocabulary, parser.markers, decoding, token_ids)
    return pieces
