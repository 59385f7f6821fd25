"""Outputs as no template writes them: markup in any order, and messages whose markers were changed.

They contain words that occur only once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from hypothesis import assume
from hypothesis import strategies as st

from .encoding import prompt_ids
from .markup import PIECES
from .outputs import outputs
from .sources import family_source, sources

if TYPE_CHECKING:
    from .outputs import Family
    from .sources import Source

__all__ = ["TOOLS", "Broken", "altered", "mixed"]

_WORD: Final = "\ue000"
"""Stands for a word."""
TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "number"}}},
        },
    }
    for name in ("f", "g")
]


@dataclass(frozen=True, repr=False)
class Broken:
    """An output.

    Attributes:
        source: What wrote it.
        text: The output. Characters stand for markers that are tokens.
        prompt: The end of the prompt.
        client: The fields of the client's request that parsing depends on.
        cut: Whether the output was cut at a length.
    """

    source: Source
    text: str
    prompt: tuple[int, ...]
    client: dict[str, Any]
    cut: bool

    def __repr__(self) -> str:
        tools = "tools" if self.client["tools"] else "no tools"
        prompt = b"".join(self.source.vocabulary.pieces[each] for each in self.prompt).decode()
        return (
            f"{self.source.name}: {self.written!r} after {prompt!r}, cut={self.cut}, {tools}, "
            f"{self.client.get('tool_choice')}"
        )

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(repr(self))

    @cached_property
    def written(self) -> str:
        """The output with its markers as text."""
        return self.source.plain(self.text)

    @cached_property
    def ids(self) -> list[int]:
        """Its ids."""
        return self.source.encode(self.text)

    @cached_property
    def words(self) -> list[str]:
        """The words that occur once."""
        return re.findall(r"w\d\dv", self.text)


@st.composite
def mixed(draw: st.DrawFn, tools: str | None) -> Broken:
    """Generate markup in any order, among pieces of text.

    Args:
        tools: Name of the tool-call parser.
    """
    source = draw(st.sampled_from(sources(tools)))
    steps = [source.marked(step).replace("W", _WORD) for step in source.steps]
    partial = [marker[:size] for marker in source.markers for size in (len(marker) // 2, len(marker))]
    texts = [*(piece.replace("W", _WORD) for piece in PIECES), *partial, *source.markers.values()]
    choice = st.sampled_from(texts) | st.integers(0, len(steps) - 1) | st.just(None) | st.just(None)
    text, at = "", draw(st.integers(0, len(steps) - 1))
    for piece in draw(st.lists(choice, max_size=16)):
        if isinstance(piece, str):
            text += piece
        else:
            # The step that is drawn, or the one after the last.
            at = at if piece is None else piece
            text += steps[at]
            at = (at + 1) % len(steps)
    client = {"tools": TOOLS if draw(st.booleans()) else [], "tool_choice": draw(_CHOICES)}
    prompt = draw(st.sampled_from(source.prompts))
    return Broken(source, _with_words(text), prompt, client, draw(st.booleans()))


_CHOICES: Final = st.sampled_from(("auto", "auto", "none"))


@st.composite
def altered(draw: st.DrawFn, family: Family) -> Broken:
    """Generate messages of a family with words inserted, and with markers removed, doubled, moved or cut off.

    Args:
        family: The family.
    """
    output = draw(outputs(family, noisy=draw(st.booleans())))
    keys = [key for call in output.calls for key in call.arguments]
    # Of two parameters of one name, the first counts.
    assume(not family.bare or len(keys) == len(set(keys)))
    source = family_source(family, draw(st.sampled_from((1, 3, 12))))
    text = output.text
    for _ in range(draw(st.integers(0, 3))):
        text = draw(_alter(source, text))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from((f" {_WORD} ", _WORD))) + text[at:]
    cut = draw(st.booleans())
    if cut:
        text = text[: draw(st.integers(0, len(text)))]
    client = dict(output.request)
    if "tool_choice" not in client:
        client["tool_choice"] = draw(_CHOICES)
    return Broken(source, _with_words(text), prompt_ids(family, output.prompt or family.prompt), client, cut)


@st.composite
def _alter(draw: st.DrawFn, source: Source, text: str) -> str:
    """Remove, double or move a marker, or insert a piece of text."""
    markers = sorted({*source.markers.values(), *source.parsers.markers}, key=len, reverse=True)
    places = [match.span() for match in re.finditer("|".join(map(re.escape, markers)), text)] if markers else []
    what = draw(st.sampled_from(("remove", "double", "move", "insert"))) if places else "insert"
    if what == "insert":
        at = draw(st.integers(0, len(text)))
        return text[:at] + draw(st.sampled_from(PIECES)).replace("W", _WORD) + text[at:]
    begin, end = draw(st.sampled_from(places))
    marker, rest = text[begin:end], text[:begin] + text[end:]
    if what == "remove":
        return rest
    at = begin if what == "double" else draw(st.integers(0, len(rest)))
    return (text if what == "double" else rest)[:at] + marker + (text if what == "double" else rest)[at:]


def _with_words(text: str) -> str:
    """Write a word in each place that stands for one."""
    first, *rest = text.split(_WORD)
    return first + "".join([f"w{number:02d}v{part}" for number, part in enumerate(rest)])
