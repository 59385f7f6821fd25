"""What the tests of parsing share: vocabularies that have markers, and outputs read whole and in pieces."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from derender.parsing import (
    CallArguments,
    CallStart,
    Content,
    Reasoning,
    dump_state,
    finish,
    load_parsers,
    load_state,
    parse,
    start,
)
from derender.parsing.registry import REASONING_PARSERS, TOOL_CALL_PARSERS
from tests.support.vocabularies import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from derender.decoding.pieces import Piece
    from derender.parsing import Event, Parser, Parsers, ParserState
    from derender.vocabulary import Vocabulary

FROM_VOCABULARY: Final = {"hf"}
"""Names of formats that vocabularies bring along, which those of these tests do not."""
TOOL_NAMES: Final = sorted(TOOL_CALL_PARSERS.keys() - FROM_VOCABULARY)
REASONING_NAMES: Final = sorted(REASONING_PARSERS.keys() - FROM_VOCABULARY)
NAMES: Final = [
    (tools, reasoning)
    for tools in (None, *TOOL_NAMES)
    for reasoning in (None, *REASONING_NAMES)
    if tools or reasoning
]
"""All pairs of parsers, also those that are refused."""
WHOLE: Final = ({"openai", "openai_gptoss"}, {"kimi_k3"})
"""Names of formats that go with no other."""
TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "exact": {"type": "boolean"},
                    "where": {"type": "object"},
                    "tags": {"type": "array"},
                    "until": {"type": ["integer", "null"]},
                },
            },
        },
    },
    {"type": "function", "function": {"name": "get_time"}},
]


def go_together(tools: str | None, reasoning: str | None) -> bool:
    """Whether two parsers may be used together."""
    names = {name for name in (tools, reasoning) if name}
    return all(names <= whole or not names & whole for whole in WHOLE)


def markers_of(tools: str | None, reasoning: str | None) -> set[str]:
    """The control tokens of two formats."""
    parsers = load_parsers(vocabulary([b"x"] * 3), tools, reasoning)
    assert parsers is not None
    formats = [each for each in (parsers.tools, parsers.reasoning) if each]
    return {marker for each in formats for marker in each.markers}


def with_markers(markers: Sequence[str], special: Sequence[str] = ("<eos>",)) -> Vocabulary:
    """A byte-level vocabulary: each byte, then special tokens, then markers."""
    added = [*special, *markers]
    ids = range(256, 256 + len(added))
    return vocabulary(
        [*(bytes([byte]) for byte in range(256)), *(token.encode() for token in added)],
        eos_token_id=256,
        stop_token_ids=(256,),
        special_token_ids=tuple(ids[: len(special)]),
        added_token_ids=tuple(ids),
    )


def encoded(vocabulary: Vocabulary, text: str) -> list[int]:
    """Text as ids of `with_markers`."""
    return [
        token_id
        for part in _parts(vocabulary.added_tokens(), text)
        for token_id in ([part] if isinstance(part, int) else part.encode())
    ]


@cache
def marked(tools: str | None, reasoning: str | None = None, without: frozenset[str] = frozenset()) -> Parsers:
    """Parsers whose vocabulary has all their markers as tokens."""
    parsers = load_parsers(with_markers(sorted(markers_of(tools, reasoning) - without)), tools, reasoning)
    assert parsers is not None
    return parsers


def pieces_of(parser: Parser, text: str) -> list[Piece]:
    """Text with the ids of the markers in it."""
    texts = parser.grammar.texts
    return _parts({texts[character]: token_id for token_id, character in parser.markers.items()}, text)


def _parts(tokens: dict[str, int], text: str) -> list[Piece]:
    longest_first = sorted(tokens, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text) if tokens else [text]
    return [tokens.get(part, part) for part in parts if part]


class Said(NamedTuple):
    """What an output was parsed to."""

    content: str
    reasoning: str
    calls: list[tuple[str, str]]
    """Names and arguments."""


def joined(events: Sequence[Event]) -> Said:
    """What the events say."""
    names: list[str] = []
    arguments: list[str] = []
    for event in events:
        match event:
            case CallStart():
                assert event.index == len(names)
                names.append(event.name)
                arguments.append("")
            case CallArguments():
                assert event.index == len(names) - 1, "arguments of a call that is over"
                arguments[event.index] += event.text
    return Said(
        "".join([event.text for event in events if isinstance(event, Content)]),
        "".join([event.text for event in events if isinstance(event, Reasoning)]),
        list(zip(names, arguments, strict=True)),
    )


def events_of(
    parser: Parser, chunks: Sequence[Sequence[Piece]], *, cut: bool = False, state: ParserState | None = None
) -> list[Event]:
    """The events of an output that comes in chunks; between two, its state is JSON."""
    state = state or start(parser, None)
    events: list[Event] = []
    for number, chunk in enumerate(chunks):
        if number:
            state = load_state(parser, json.loads(json.dumps(dump_state(parser, state))))
        more, state = parse(parser, state, chunk)
        events += more
    last, _ = finish(parser, state, cut=cut)
    return events + last


def splits(pieces: Sequence[Piece]) -> Iterator[list[list[Piece]]]:
    """Ways to cut an output: not at all, everywhere, and in two at each place, or many of a long one."""
    characters: list[Piece] = [
        character for piece in pieces for character in ([piece] if isinstance(piece, int) else piece)
    ]
    yield [list(pieces)]
    yield [[character] for character in characters]
    for place in range(1, len(characters), 1 + len(characters) // 25):
        yield [characters[:place], characters[place:]]


def said(parser: Parser, output: str, *, cut: bool = False) -> Said:
    """What an output says, which is the same however it is cut into pieces."""
    first, *others = (
        joined(events_of(parser, chunks, cut=cut)) for chunks in splits(pieces_of(parser, output))
    )
    for other in others:
        assert other == first
    return first
