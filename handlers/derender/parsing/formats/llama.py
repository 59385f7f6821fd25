"""Calls of Llama 3 and 4 as JSON: the whole answer, or the text after `<|python_tag|>`. Models also put them on
lines of their own behind text, or in a code block."""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import Act, CallObjects, Edge, Format, Shows, Slip, Text, twice
from derender.parsing.patterns import END, OTHER_TEXT, SPACE, ahead, one_of, optional

from .objects import CALLS, FENCE, alone

__all__ = ["TOOLS"]

_TAG: Final = "<|python_tag|>"
_OBJECTS: Final = one_of("{", ("[", SPACE, "{"))
_TAGGED: Final = twice(Edge((_TAG, SPACE, ahead(_OBJECTS)), "objects", Act.BEGIN), _TAG)
_LINE: Final = optional("\n")
"""With it, an edge of `first` begins where that of a call behind text does, and so comes before it."""
_BETWEEN: Final = one_of(";", ",")

TOOLS: Final = Format(
    markers=(_TAG,),
    first=(
        Edge((SPACE, _LINE, ahead(_OBJECTS)), "objects", Act.BEGIN),
        Edge((SPACE, _LINE, *FENCE, ahead(CALLS)), "alone", Act.BEGIN, slip=Slip.BEHIND_TEXT),
    ),
    content=(
        *_TAGGED,
        Edge((_TAG,), "content", slip=Slip.STRAY),
        Edge((SPACE, "\n", optional(*FENCE), ahead(CALLS)), "alone", Act.BEGIN, slip=Slip.BEHIND_TEXT),
    ),
    reasoning=_TAGGED,
    regions={
        "objects": CallObjects(then="more", otherwise="content", closes=True),
        "more": Text(
            Shows.CONTENT,
            (
                Edge(
                    (SPACE, optional(_BETWEEN, SPACE), optional(_TAG, SPACE), ahead(_OBJECTS)),
                    "objects",
                    Act.BEGIN,
                ),
                Edge((SPACE, "}", ahead(SPACE, one_of(_BETWEEN, _TAG, END))), "more", slip=Slip.TWICE),
                Edge(OTHER_TEXT, "content"),
            ),
        ),
        **alone(
            Edge((SPACE, one_of(_BETWEEN, _TAG), ahead(SPACE, CALLS)), "after alone"),
            Edge((SPACE, "```", SPACE, *FENCE, ahead(CALLS)), "after alone"),
            Edge((SPACE, _TAG, SPACE, END), "called", Act.CLOSE, slip=Slip.STRAY),
            Edge((SPACE, "```", SPACE, END), "called", Act.CLOSE),
        ),
    },
    offered_only=True,
)
