"""Hermes' calls: JSON objects between `<tool_call>` and `</tool_call>` (Qwen2.5, Qwen3, Hermes 2 Pro and
later)."""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import Act, Edge, Format, Region, Yields
from derender.parsing.engine.patterns import SPACE, ahead, one_of

__all__ = ["TOOLS"]

_BEGINS: Final = Edge((SPACE, "<tool_call>", SPACE, ahead(one_of("{", "["))), "objects", Act.BEGIN)

TOOLS: Final = Format(
    markers=("<tool_call>", "</tool_call>"),
    content=(_BEGINS,),
    reasoning=(_BEGINS,),
    regions={
        "objects": Region(Yields.CALLS, then="end", otherwise="content"),
        "end": Region(
            Yields.NOTHING,
            (
                Edge((SPACE, "</tool_call>"), "content", Act.CLOSE),
                # Models forget it between two calls, or put both into one markup.
                Edge((SPACE, ahead("<tool_call>")), "content", Act.CLOSE),
                Edge((SPACE, ahead("{")), "next", Act.CLOSE),
            ),
            ends=True,
        ),
        "next": Region(Yields.NOTHING, (Edge((ahead("{"),), "objects", Act.BEGIN),)),
    },
)
