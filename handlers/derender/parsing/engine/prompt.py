"""Find the region an output begins in: by the end of its prompt, or by the first marker of a whole output."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from derender.decoding.pieces import read_pieces
from derender.decoding.state import DetokenizerState

from .format import UNREAD, Preface
from .machine import parse
from .state import BodyState, ParserState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.decoding.pieces import Piece
    from derender.parsing.patterns import Scanner
    from derender.parsing.patterns.regexes import RegexScanner

    from .parser import Parser

__all__ = ["Start", "read_start"]

_MAX_READ: Final = 4096
"""Ids of the prompt's end that are read. What opens the model's message is there."""


class Start(Struct, frozen=True):
    """Where the outputs of a prompt begin. It is read once for all of them."""

    state: ParserState
    """The state before an output."""
    told: bool
    """Whether the prompt's ids tell it. Otherwise it is a guess that a whole output may correct."""

    def before(self, parser: Parser, output: Sequence[Piece]) -> ParserState:
        """Return the state before a whole output.

        If the prompt's ids don't tell, and the output ends reasoning that it did not begin, the prompt has
        begun it, unless thinking is switched off.

        Args:
            parser: How the output is parsed.
            output: The pieces of the output.
        """
        if self.told or parser.thinking is False:
            return self.state
        return _before_end_of_thoughts(parser, output) or self.state


def read_start(parser: Parser, prompt_token_ids: Sequence[int] | None) -> Start:
    """Read where the outputs of a prompt begin.

    If the prompt is not known, it ends as the chat template writes it. If the layer does not say how, the
    client's switch decides, then the family.

    Args:
        parser: How the outputs are parsed.
        prompt_token_ids: The prompt, or a suffix of it.
    """
    if state := _after_prompt(parser, prompt_token_ids or ()):
        return Start(state, told=True)
    return Start(_after_prompt(parser, parser.prompt) or ParserState(parser.start), told=False)


def _before_end_of_thoughts(parser: Parser, output: Sequence[Piece]) -> ParserState | None:
    """Return the state before an output that ends reasoning and did not begin it; None for any other."""
    grammar = parser.grammar
    text = grammar.encode(output)
    markers = [
        (place, marker, region)
        for each in grammar.thoughts
        for marker, region in ((each.begins, ""), (each.ends, each.region))
        if (place := text.find(marker)) >= 0
    ]
    place, marker, region = min(markers, default=(0, "", ""))
    if not region:
        return None
    _, state = parse(parser, ParserState("answer"), [text[: place + len(marker)]])
    # In the arguments of a call, the marker is text.
    reading = state.calls and state.calls.reading
    in_call = reading and not isinstance(parser.grammar.regions[state.region], Preface)
    return None if in_call else ParserState(region)


def _after_prompt(parser: Parser, prompt_token_ids: Sequence[int]) -> ParserState | None:
    """Return the state after a prompt; None if it does not tell.

    The end of a prompt opens the model's message, and often more: the reasoning, or the end of it. So the end
    of the prompt is parsed like output.
    """
    try:
        state = _read_prompt(parser, prompt_token_ids) if prompt_token_ids else None
    except TimeoutError:
        return None
    return None if state is None or state.region == UNREAD else state


def _read_prompt(parser: Parser, prompt_token_ids: Sequence[int]) -> ParserState | None:
    grammar = parser.grammar
    if grammar.anchor:
        pieces, found = _after_anchor(parser, grammar.anchor, prompt_token_ids)
    else:
        pieces, found = _after_control(parser, prompt_token_ids)
    # A call that the prompt begins belongs to the output.
    buffering = replace(parser, whole_calls=True, one_call=False)
    _, state = parse(buffering, ParserState("prompt"), pieces)
    marked = any(marker in state.held for marker in grammar.marker_texts)
    scanner = grammar.scanners[state.region]
    if not marked and not scanner.search(state.held, 0, final=True):
        # The prompt's own text does not belong to the output.
        state.held = ""
    if not (state.marked or state.held or found):
        return None
    if state.calls and not isinstance(state.calls.reading, BodyState):
        # A body is read from its beginning.
        state.calls.raw = []
    return replace(
        state,
        region=grammar.after_prompt.get(state.region, state.region),
        shown="",
        leading_space="",
        answered=False,
        reasoned=False,
        marked=False,
        emitted=0,
        called=False,
    )


def _after_control(parser: Parser, prompt_token_ids: Sequence[int]) -> tuple[list[Piece], bool]:
    """Return the prompt after its last control token that is no marker, and whether there is one."""
    grammar = parser.grammar
    tail: list[int] = []
    found = False
    for token_id in islice(reversed(prompt_token_ids), _MAX_READ):
        if found := token_id in grammar.control and token_id not in grammar.markers:
            break
        tail.append(token_id)
        if found := token_id == grammar.turn:
            break
    return _read(parser, tail[::-1]), found


def _after_anchor(
    parser: Parser, anchor: Scanner | RegexScanner, prompt_token_ids: Sequence[int]
) -> tuple[list[Piece], bool]:
    """Return the prompt after the last place where a message begins, and whether there is one."""
    text = parser.grammar.encode(_read(parser, prompt_token_ids[-_MAX_READ:]))
    begin = place = 0
    found = False
    while place <= len(text) and (match := anchor.search(text, place, final=True)):
        begin, place, found = match.end, max(match.end, match.start + 1), True
    return [text[begin:]], found


def _read(parser: Parser, token_ids: Sequence[int]) -> list[Piece]:
    decoding = DetokenizerState(text_started=True)
    pieces, _ = read_pieces(parser.grammar.vocabulary, parser.markers, decoding, token_ids)
    return pieces
