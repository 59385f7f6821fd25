"""Calls of Qwen2.5, Qwen3, and Hermes 2 Pro and later: JSON objects between `<tool_call>` and
`</tool_call>`."""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import Act, CallObjects, Edge, Format, Markup, Slip
from derender.parsing.patterns import ANYTHING, SPACE, ahead, one_of, optional

__all__ = ["TOOLS"]

_OPEN: Final = Edge(
    (SPACE, "<tool_call>", SPACE, optional("<tool_call>", SPACE), ahead(one_of("{", "["))), "objects", Act.BEGIN
)

TOOLS: Final = Format(
    markers=("<tool_call>", "</tool_call>"),
    called=(Edge((SPACE, "</tool_call>"), "called", slip=Slip.TWICE),),
    content=(_OPEN,),
    reasoning=(_OPEN,),
    regions={
        "objects": CallObjects(then="end", otherwise="content"),
        "end": Markup(
            (
                Edge((SPACE, "</tool_call>"), "called", Act.CLOSE),
                # Models put several calls into one markup.
                Edge((SPACE, ahead("{")), "next", Act.CLOSE),
                Edge((SPACE, ahead(ANYTHING)), "called", Act.CLOSE, slip=Slip.NO_END),
            ),
            ends=True,
        ),
        "next": Markup((Edge((ahead("{"),), "objects", Act.BEGIN),)),
    },
)
