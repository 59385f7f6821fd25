"""Where an output begins, as far as its prompt says."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ..detokenizer import DetokenizerState
from .engine import parse
from .pieces import read_pieces
from .state import ParserState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .engine import Parser

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
    tail, whole = _message(parser, prompt_token_ids)
    pieces, _ = read_pieces(
        parser.grammar.vocabulary, parser.markers, DetokenizerState(text_started=True), tail
    )
    _, state = parse(parser, ParserState("content"), pieces)
    if not any(marker in state.held for marker in parser.grammar.marker_texts):
        # The prompt's own text, not the output's.
        state = replace(state, held="")
    if not (state.marked or state.held or whole):
        return unknown
    return replace(
        state,
        region="answer" if state.region == "content" else state.region,
        space="",
        answered=False,
        reasoned=False,
        marked=False,
        number=0,
        calls=state.calls and replace(state.calls, raw=""),
    )


def _message(parser: Parser, prompt_token_ids: Sequence[int]) -> tuple[list[int], bool]:
    """The ids of the message that the prompt opens, and whether all of them are there."""
    grammar = parser.grammar
    tail: list[int] = []
    for token_id in islice(reversed(prompt_token_ids), _MOST_READ):
        if token_id in grammar.control and token_id not in grammar.markers:
            return tail[::-1], True
        tail.append(token_id)
        if token_id == grammar.turn:
            return tail[::-1], True
    return tail[::-1], False
