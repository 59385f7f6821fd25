"""Drive the parsing engine: pieces or ids in, events out. The state is handed on as it is between requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import orjson

from derender.decoding import detokenizer
from derender.decoding.output import OutputState
from derender.decoding.pieces import read_pieces
from derender.models.model import StateSeal
from derender.parsing import (
    CallArguments,
    Content,
    Reasoning,
    ReasoningTokens,
    dump_state,
    finish,
    load_state,
    parse,
    read_start,
)
from derender.streaming.seal import open_state, seal_state
from derender.streaming.state import ChoiceState, GenerationState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from derender.decoding.pieces import Piece
    from derender.decoding.state import DetokenizerState
    from derender.decoding.token_places import TokenRun
    from derender.parsing import Event, Parser, ParserState
    from derender.vocabulary import Vocabulary

__all__ = ["Stream", "join_events", "parse_chunks", "parse_ids"]


def parse_chunks(
    parser: Parser, chunks: Sequence[Sequence[Piece]], *, cut: bool = False, state: ParserState | None = None
) -> list[Event]:
    """Parse an output that arrives in chunks. Between two, its state is JSON."""
    state = state or read_start(parser, None).state
    events: list[Event] = []
    for number, chunk in enumerate(chunks):
        if number:
            state = load_state(parser, json.loads(json.dumps(dump_state(parser, state))))
        more, state = parse(parser, state, chunk)
        events += more
    last = finish(parser, state, cut=cut)
    return events + last


class Stream:
    """An output that is parsed chunk by chunk. After each chunk the state is sealed and opened."""

    def __init__(self, vocabulary: Vocabulary, parser: Parser, prompt: Sequence[int] = ()) -> None:
        self.vocabulary, self.parser = vocabulary, parser
        self.decoding: DetokenizerState = detokenizer.start(vocabulary, prompt, skip_special_tokens=False)
        self.state: ParserState = read_start(parser, prompt).state
        self.beginning = ChoiceState(OutputState(self.decoding), self.state)
        self.seal = StateSeal(model=2**32 - 1, size=vocabulary.manifest.size, keys=(b"key",))
        self.events: list[Event] = []
        self.size = 0
        """Bytes of the last sealed state."""

    def feed(self, ids: Sequence[int]) -> None:
        """Parse more ids."""
        runs: list[TokenRun] = []
        pieces, self.decoding = read_pieces(self.vocabulary, self.parser.markers, self.decoding, ids, runs=runs)
        events, state = parse(self.parser, self.state, pieces, runs)
        self.events += events
        choice = ChoiceState(OutputState(self.decoding), state)
        generation = GenerationState(
            "chatcmpl-0123456789abcdef", 1_795_967_522, self.beginning, choices={0: choice}
        )
        sealed = seal_state(self.seal, "chat", self.parser, generation)
        assert open_state(self.seal, "chat", self.parser, sealed) == generation
        self.state = state
        self.size = len(orjson.dumps(sealed, default=vars))

    def ended(self, *, cut: bool) -> list[Event]:
        """Return all events if the output ends here."""
        return join_events([*self.events, *finish(self.parser, self.state, cut=cut)])


def parse_ids(
    vocabulary: Vocabulary,
    parser: Parser,
    chunks: Iterable[Sequence[int]],
    *,
    prompt: Sequence[int] = (),
    cut: bool = False,
) -> list[Event]:
    """Parse an output that arrives in chunks of ids. Return its events, joined."""
    stream = Stream(vocabulary, parser, prompt)
    for chunk in chunks:
        stream.feed(chunk)
    return stream.ended(cut=cut)


def join_events(events: Iterable[Event]) -> list[Event]:
    """Join neighbouring events of one kind. The tokens of the reasoning are counted at the end."""
    joined: list[Event] = []
    tokens = 0
    for event in events:
        last = joined[-1] if joined else None
        match (last, event):
            case (_, ReasoningTokens(count)):
                tokens += count
            case (Content(before), Content(text)):
                joined[-1] = Content(before + text)
            case (Reasoning(before), Reasoning(text)):
                joined[-1] = Reasoning(before + text)
            case (CallArguments(index, before), CallArguments(same, text)) if index == same:
                joined[-1] = CallArguments(index, before + text)
            case _:
                joined.append(event)
    return [*joined, ReasoningTokens(tokens)] if tokens else joined
