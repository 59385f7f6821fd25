"""Calls of Llama 3 and 4 as JSON: the whole answer, or the text after `<|python_tag|>`."""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import Act, CallObjects, Edge, Format, Shows, Text
from derender.parsing.patterns import ANYTHING, SPACE, ahead, optional

__all__ = ["TOOLS"]

_TAGGED: Final = Edge(("<|python_tag|>", SPACE, ahead("{")), "objects", Act.BEGIN)

TOOLS: Final = Format(
    markers=("<|python_tag|>",),
    first=(Edge((SPACE, ahead("{")), "objects", Act.BEGIN),),
    content=(_TAGGED,),
    reasoning=(_TAGGED,),
    regions={
        "objects": CallObjects(then="more", otherwise="content", closes=True),
        "more": Text(
            Shows.CONTENT,
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
