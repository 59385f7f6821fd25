"""Calls of Qwen2.5, Qwen3, and Hermes 2 Pro and later: JSON objects between `<tool_call>` and
`</tool_call>`."""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import Act, CallObjects, Edge, Format, Markup
from derender.parsing.patterns import SPACE, ahead, one_of

__all__ = ["TOOLS"]

_OPEN: Final = Edge((SPACE, "<tool_call>", SPACE, ahead(one_of("{", "["))), "objects", Act.BEGIN)

TOOLS: Final = Format(
    markers=("<tool_call>", "</tool_call>"),
    content=(_OPEN,),
    reasoning=(_OPEN,),
    regions={
        "objects": CallObjects(then="end", otherwise="content"),
        "end": Markup(
            (
                Edge((SPACE, "</tool_call>"), "content", Act.CLOSE),
                # Models forget the marker between two calls, or put both calls into one markup.
                Edge((SPACE, ahead("<tool_call>")), "content", Act.CLOSE),
                Edge((SPACE, ahead("{")), "next", Act.CLOSE),
            ),
            ends=True,
        ),
        "next": Markup((Edge((ahead("{"),), "objects", Act.BEGIN),)),
    },
)
