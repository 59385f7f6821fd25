"""Vocabularies with markers, and outputs parsed whole and in pieces."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from derender.parsing import load_parsers
from derender.parsing.registry import REASONING_PARSERS, TOOL_CALL_PARSERS
from tests.support.engine import parse_chunks
from tests.support.parsers import Message, fold, request_parser
from tests.support.vocabularies import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from derender.decoding.pieces import Piece
    from derender.parsing import Parser, Parsers
    from derender.vocabulary import Vocabulary

FROM_VOCABULARY: Final = {"hf"}
"""Names of formats that a vocabulary describes. Those of these tests describe none."""
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
"""Names of formats that combine with no other."""
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
NAMED: Final = {"type": "function", "function": {"name": "get_weather"}}
"""A `tool_choice`."""
PARIS: Final = ("get_weather", '{"city": "Paris"}')
TIME: Final = ("get_time", "{}")


def combine(tools: str | None, reasoning: str | None) -> bool:
    """Return whether two parsers may be used together."""
    names = {name for name in (tools, reasoning) if name}
    return all(names <= whole or not names & whole for whole in WHOLE)


def marker_texts(tools: str | None, reasoning: str | None) -> set[str]:
    """Return the control tokens of two formats."""
    parsers = load_parsers(vocabulary([b"x"] * 3), tools, reasoning)
    assert parsers is not None
    return set(parsers.markers)


def marked_vocabulary(markers: Sequence[str], special: Sequence[str] = ("<eos>",), **fields: Any) -> Vocabulary:
    """Return a byte-level vocabulary: each byte, then special tokens, then markers.

    Args:
        markers: The markers.
        special: The special tokens.
        fields: Further fields of the manifest.
    """
    added = [*special, *markers]
    ids = range(256, 256 + len(added))
    return vocabulary(
        [*(bytes([byte]) for byte in range(256)), *(token.encode() for token in added)],
        eos_token_id=256,
        stop_token_ids=(256,),
        special_token_ids=tuple(ids[: len(special)]),
        added_token_ids=tuple(ids),
        **fields,
    )


def encode(vocabulary: Vocabulary, text: str) -> list[int]:
    """Encode text with a vocabulary of `marked_vocabulary`."""
    return [
        token_id
        for part in _split_tokens(vocabulary.added_tokens(), text)
        for token_id in ([part] if isinstance(part, int) else part.encode())
    ]


@cache
def marked_parsers(
    tools: str | None, reasoning: str | None = None, without: frozenset[str] = frozenset()
) -> Parsers:
    """Return parsers whose vocabulary has their markers as tokens, but for some."""
    parsers = load_parsers(
        marked_vocabulary(sorted(marker_texts(tools, reasoning) - without)), tools, reasoning
    )
    assert parsers is not None
    return parsers


def to_pieces(parser: Parser, text: str) -> list[Piece]:
    """Return text as pieces: texts, and the ids of the markers between them."""
    texts = parser.grammar.texts
    return _split_tokens({texts[character]: token_id for token_id, character in parser.markers.items()}, text)


def _split_tokens(tokens: dict[str, int], text: str) -> list[Piece]:
    longest_first = sorted(tokens, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text) if tokens else [text]
    return [tokens.get(part, part) for part in parts if part]


def split_pieces(pieces: Sequence[Piece]) -> Iterator[list[list[Piece]]]:
    """Yield ways to split an output: whole, everywhere, and in two at each place, or at many of a long one."""
    characters: list[Piece] = [
        character for piece in pieces for character in ([piece] if isinstance(piece, int) else piece)
    ]
    yield [list(pieces)]
    yield [[character] for character in characters]
    for place in range(1, len(characters), 1 + len(characters) // 25):
        yield [characters[:place], characters[place:]]


def parse_output(parser: Parser, output: str, *, cut: bool = False) -> Message:
    """Parse an output, and check that any split gives the same."""
    first, *others = (
        fold(parse_chunks(parser, chunks, cut=cut)) for chunks in split_pieces(to_pieces(parser, output))
    )
    for other in others:
        assert other == first
    return first


def check(parsers: Parsers, output: str, expected: Message, *, cut: bool = False, **request: Any) -> None:
    """Check what an output is parsed to, if calls are emitted once they are complete."""
    parser = request_parser(parsers, **{"tools": TOOLS, "whole_calls": True, **request})
    assert parse_output(parser, output, cut=cut) == expected
    for _, arguments in expected.calls:
        assert isinstance(json.loads(arguments), dict)


def check_both(parsers: Parsers, output: str, expected: Message, **request: Any) -> None:
    """Check what an output is parsed to, also if calls are streamed."""
    check(parsers, output, expected, **request)
    check(parsers, output, expected, whole_calls=False, **request)
