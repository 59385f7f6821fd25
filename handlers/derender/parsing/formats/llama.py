"""Calls of Llama 3 and 4 as JSON: the whole answer is a call, or what follows `<|python_tag|>` is."""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import Act, Edge, Format, Region, Yields
from derender.parsing.engine.patterns import ANYTHING, SPACE, ahead, optional

__all__ = ["TOOLS"]

_TAGGED: Final = Edge(("<|python_tag|>", SPACE, ahead("{")), "objects", Act.BEGIN)

TOOLS: Final = Format(
    markers=("<|python_tag|>",),
    first=(Edge((SPACE, ahead("{")), "objects", Act.BEGIN),),
    content=(_TAGGED,),
    reasoning=(_TAGGED,),
    regions={
        "objects": Region(Yields.CALLS, then="more", otherwise="content", closes=True),
        "more": Region(
            Yields.CONTENT,
            (
                Edge(
                    (SPACE, optional(";", SPACE), optional("<|python_tag|>", SPACE), ahead("{")),
                    "objects",
                    Act.BEGIN,
                ),
                Edge((ahead(ANYTHING),), "content"),
            ),
        ),
    },
    offered_only=True,
)
