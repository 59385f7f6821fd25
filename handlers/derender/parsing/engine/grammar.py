"""Formats made ready for a vocabulary: regions by name, and each one's search."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from derender.parsing.arguments.notation import with_quotes

from .format import Edge, Format, Region, Yields
from .patterns import ANYTHING, Regular, Scanner, ahead, translate, with_markers
from .state import MOST_BEHIND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from derender.vocabulary import Vocabulary

    from .patterns import Pattern
    from .regexes import RegexScanner

__all__ = ["Grammar", "compile_grammar"]

_FIRST_MARKER: Final = 0xD800
"""Markers are lone surrogates in the text that is parsed: text that was decoded holds none."""
_MOST_MARKERS: Final = 0x800
_EMPTY: Final = Format()
_MARKER: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Grammar:
    """Formats, ready for one vocabulary.

    Attributes:
        regions: The regions.
        scanners: Each region's search for its edges.
        markers: Token id → the character that stands for it in the text that is parsed.
        texts: That character → the marker's text.
        marker_texts: All markers, as they are in the text that is parsed.
        offered_only: Whether only tools that the client offered are called.
        uncut: Whether the output is read as it was generated, past what stopped it.
        looks_back: How many characters a pattern may look back.
        vocabulary: The vocabulary.
        control: Token ids that are not text.
        after_prompt: Region that a prompt ends in → the one that its output begins in, if not the same.
        anchor: Searches for what begins the model's message in a prompt.
        turn: Token id that begins a message and is read as part of it.
    """

    regions: Mapping[str, Region]
    scanners: Mapping[str, Scanner | RegexScanner]
    markers: Mapping[int, str]
    texts: Mapping[str, str]
    marker_texts: tuple[str, ...]
    offered_only: bool
    uncut: bool
    looks_back: int
    vocabulary: Vocabulary
    control: frozenset[int]
    after_prompt: Mapping[str, str]
    anchor: Scanner | RegexScanner | None
    turn: int | None

    def with_markers(self, text: str) -> str:
        """Text with its markers as they are written."""
        return with_markers(text, self.texts)

    def without_tokens(self, text: str) -> str:
        """Text with the markers left out that are tokens. It may be a piece of more."""
        return _MARKER.sub("", text)

    def without_markers(self, text: str) -> str:
        """A whole text with all markers left out."""
        for marker in self.marker_texts:
            text = text.replace(marker, "")
        return text


def compile_grammar(
    vocabulary: Vocabulary,
    tools: Format | None,
    reasoning: Format | None,
    forced: Format | None = None,
) -> Grammar:
    """Put formats together.

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
    known = {
        text: text if plain else chr(_FIRST_MARKER + number)
        for number, text in enumerate(texts)
        if text in added_tokens
    }
    assert plain or len(known) <= _MOST_MARKERS
    content = tuple(chain.from_iterable(each.content for each in formats))
    first = chain.from_iterable(each.first for each in ([forced] if forced else []) + formats)
    regions: dict[str, Region] = {
        "answer": Region(Yields.CONTENT, (*first, *content, Edge((ahead(ANYTHING),), "content"))),
        "content": Region(Yields.CONTENT, content),
        "reasoning": Region(
            Yields.CONTENT if reasoning is None else Yields.REASONING,
            tuple(chain.from_iterable(each.reasoning for each in formats)),
        ),
    }
    for each in (*formats, forced or _EMPTY):
        regions |= each.regions
    if reasoning is None:
        regions = {name: _as_content(region) for name, region in regions.items()}
    anchors = [anchor for each in formats for anchor in each.anchors]
    turn = next((each.turn for each in formats if each.turn), None)
    return Grammar(
        regions={
            name: replace(region, notation=region.notation and with_quotes(region.notation, known))
            for name, region in regions.items()
        },
        scanners={
            name: _scanner([edge.pattern for edge in region.edges], known)
            for name, region in regions.items()
            if region.yields not in (Yields.ARGUMENTS, Yields.CALLS)
        },
        markers={added_tokens[text]: character for text, character in known.items()},
        texts={character: text for text, character in known.items()},
        marker_texts=tuple(translate(text, known) for text in texts),
        offered_only=bool(tools and tools.offered_only),
        uncut=any(each.uncut for each in formats),
        # Only regular expressions can.
        looks_back=MOST_BEHIND if plain else 0,
        vocabulary=vocabulary,
        control=vocabulary.special.union(added_tokens[text] for text in added_tokens if text.strip()),
        after_prompt={"content": "answer"}
        | dict(chain.from_iterable(each.after_prompt.items() for each in formats)),
        anchor=_scanner(anchors, known) if anchors else None,
        turn=added_tokens.get(turn) if turn else None,
    )


def _scanner(patterns: Sequence[Pattern | Regular], markers: Mapping[str, str]) -> Scanner | RegexScanner:
    own = [pattern for pattern in patterns if not isinstance(pattern, Regular)]
    if len(own) == len(patterns):
        return Scanner(own, markers)
    # Only formats with regular expressions pay for the import.
    from .regexes import RegexScanner

    return RegexScanner(patterns, markers)


def _as_content(region: Region) -> Region:
    return replace(region, yields=Yields.CONTENT) if region.yields is Yields.REASONING else region
