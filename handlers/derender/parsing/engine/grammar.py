"""Formats compiled for a vocabulary: regions by name, and a scanner for each region's edges."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from derender.parsing.arguments.notation import with_quotes
from derender.parsing.characters import encode_markers, number_markers
from derender.parsing.patterns import OTHER_TEXT, Regex, Scanner

from .format import BEGINNING, Act, Arguments, Edge, Format, Shows, Text, Thoughts
from .state import MAX_LOOKBEHIND

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from derender.decoding.pieces import Piece
    from derender.parsing.patterns import Pattern
    from derender.parsing.patterns.regexes import RegexScanner
    from derender.vocabulary import Vocabulary

    from .format import Region

__all__ = ["Grammar", "compile_grammar"]

_EMPTY: Final = Format()


@dataclass(frozen=True, slots=True)
class Grammar:
    """Formats compiled for one vocabulary.

    Attributes:
        regions: The regions by name.
        scanners: The search for each region's edges.
        reasoning: Regions whose text is reasoning.
        quotes: Regions of reasoning in which calls may begin, but be quoted, too.
        reasoning_ends: The search for what ends the reasoning. A call that is quoted does not swallow its end.
        markers: Token id → the character that stands for it in the parsed text.
        texts: That character → the marker's text.
        marker_texts: All markers as they are in the parsed text.
        ends: What may follow the arguments of a region: all markers but the quotes of its notation.
        thoughts: The markers around reasoning, as they are in the parsed text.
        offered_only: Whether only tools that the client offered can be called.
        uncut: Whether the output is read as it was generated, past what stopped it.
        lookbehind: How many characters a pattern may look back.
        vocabulary: The vocabulary.
        control: Token ids that are not text.
        after_prompt: The region that a prompt ends in → the region that its output begins in, if not the same.
        anchor: Searches for what begins the model's message in a prompt.
        turn: Id of the token that begins a message and is read as part of it.
    """

    regions: Mapping[str, Region]
    scanners: Mapping[str, Scanner | RegexScanner]
    reasoning: frozenset[str]
    quotes: frozenset[str]
    reasoning_ends: Scanner | RegexScanner
    markers: Mapping[int, str]
    texts: Mapping[str, str]
    marker_texts: tuple[str, ...]
    ends: Mapping[str, tuple[str, ...]]
    thoughts: tuple[Thoughts, ...]
    offered_only: bool
    uncut: bool
    lookbehind: int
    vocabulary: Vocabulary
    control: frozenset[int]
    after_prompt: Mapping[str, str]
    anchor: Scanner | RegexScanner | None
    turn: int | None

    def encode(self, pieces: Sequence[Piece]) -> str:
        """Return the parsed text of an output's pieces."""
        return "".join([piece if isinstance(piece, str) else self.markers[piece] for piece in pieces])


def compile_grammar(
    vocabulary: Vocabulary,
    tools: Format | None,
    reasoning: Format | None,
    forced: Format | None = None,
) -> Grammar:
    """Combine formats and compile them.

    Args:
        vocabulary: The vocabulary.
        tools: The tool-call format.
        reasoning: The reasoning format.
        forced: The format of calls that guided decoding makes.
    """
    added_tokens = vocabulary.added_tokens()
    formats = [tools or _EMPTY]
    if reasoning is not tools:
        formats.insert(0, reasoning or _EMPTY)
    texts = sorted({marker for each in formats for marker in each.markers})
    plain = any(each.plain for each in formats)
    known = [text for text in texts if text in added_tokens]
    characters = {text: text for text in known} if plain else number_markers(known)
    regions = _combine(formats, forced or _EMPTY, reasoned=reasoning is not None)
    anchors = [anchor for each in formats for anchor in each.anchors]
    turn = next((each.turn for each in formats if each.turn), None)
    marker_texts = tuple(encode_markers(text, characters) for text in texts)
    arguments = {
        name: replace(region, notation=with_quotes(region.notation, characters))
        for name, region in regions.items()
        if isinstance(region, Arguments)
    }
    thinking = frozenset(
        name for name, region in regions.items() if isinstance(region, Text) and region.shows is Shows.REASONING
    )
    return Grammar(
        regions=regions | arguments,
        ends={
            name: tuple(marker for marker in marker_texts if marker not in region.notation.quotes)
            for name, region in arguments.items()
        },
        scanners=_Scanners(regions, characters),
        reasoning=thinking,
        quotes=frozenset(
            name for name in thinking if any(edge.act in BEGINNING for edge in regions[name].edges)
        ),
        reasoning_ends=_scanner(
            [edge.pattern for edge in regions["reasoning"].edges if edge.act is Act.NONE], characters
        ),
        markers={added_tokens[text]: character for text, character in characters.items()},
        texts={character: text for text, character in characters.items()},
        marker_texts=marker_texts,
        thoughts=tuple(
            Thoughts(
                encode_markers(each.begins, characters), encode_markers(each.ends, characters), each.region
            )
            for form in formats
            for each in form.thoughts
        ),
        offered_only=bool(tools and tools.offered_only),
        uncut=any(each.uncut for each in formats),
        # Only regular expressions look back.
        lookbehind=MAX_LOOKBEHIND if plain else 0,
        vocabulary=vocabulary,
        control=vocabulary.special.union(added_tokens[text] for text in added_tokens if text.strip()),
        after_prompt={"prompt": "answer", "content": "answer", "called": "answer"}
        | dict(chain.from_iterable(each.after_prompt.items() for each in formats)),
        anchor=_scanner(anchors, characters) if anchors else None,
        turn=added_tokens.get(turn) if turn else None,
    )


def _combine(formats: Sequence[Format], forced: Format, *, reasoned: bool) -> dict[str, Region]:
    """Return the regions of formats. If nothing parses reasoning, reasoning is content."""
    content = tuple(chain.from_iterable(each.content for each in formats))
    between = tuple(chain.from_iterable(each.between for each in formats))
    called = chain.from_iterable(each.called for each in formats)
    first = chain.from_iterable(each.first for each in (forced, *formats))
    to_content = Edge(OTHER_TEXT, "content")
    regions: dict[str, Region] = {
        "answer": Text(Shows.CONTENT, (*first, *between, *content, to_content)),
        "content": Text(Shows.CONTENT, content),
        "called": Text(Shows.CONTENT, (*called, *between, *content, to_content)),
        "prompt": Text(Shows.CONTENT, (*between, *content)),
        "reasoning": Text(Shows.REASONING, tuple(chain.from_iterable(each.reasoning for each in formats))),
    }
    for each in (*formats, forced):
        regions |= each.regions
    if reasoned:
        return regions
    return {
        name: Text(Shows.CONTENT, region.edges) if isinstance(region, Text) else region
        for name, region in regions.items()
    }


class _Scanners(dict[str, "Scanner | RegexScanner"]):
    """The scanners of regions. Each is compiled when it is first used, as most outputs call no tools."""

    def __init__(self, regions: Mapping[str, Region], characters: Mapping[str, str]) -> None:
        super().__init__()
        self._regions, self._characters = regions, characters

    def __missing__(self, name: str) -> Scanner | RegexScanner:
        region = self._regions[name]
        edges = region.edges
        # Other text ends some regions of text. What only they have stands where they begin.
        shared = next((self._regions[edge.to].edges for edge in edges if edge.pattern is OTHER_TEXT), edges)
        anchored = [number for number, edge in enumerate(edges) if edge not in shared]
        self[name] = _scanner(
            [edge.pattern for edge in edges], self._characters, anchored if isinstance(region, Text) else ()
        )
        return self[name]


def _scanner(
    patterns: Sequence[Pattern | Regex], characters: Mapping[str, str], anchored: Collection[int] = ()
) -> Scanner | RegexScanner:
    own = [pattern for pattern in patterns if not isinstance(pattern, Regex)]
    if len(own) == len(patterns):
        return Scanner(own, characters, anchored=anchored)
    # Only formats with regular expressions pay for the import.
    from derender.parsing.patterns.regexes import RegexScanner

    return RegexScanner(patterns, characters)
