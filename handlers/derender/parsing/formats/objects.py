"""Calls as JSON objects: between `<tool_call>` and `</tool_call>`, or without any marker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from derender.parsing.engine.format import NO_CALL, Act, CallObjects, Edge, Format, Markup, Slip, twice
from derender.parsing.patterns import ANYTHING, END, SPACE, ahead, any_of, one_of, optional

if TYPE_CHECKING:
    from derender.parsing.engine.format import Region
    from derender.parsing.patterns import Part, Pattern

__all__ = ["CALL", "CALLS", "FENCE", "MARKED", "alone"]

CALL: Final[Pattern] = ("{", SPACE, one_of('"name"', ('"type"', SPACE, ":", SPACE, '"function"')))
"""The beginning of a call that has no marker."""
CALLS: Final[Part] = one_of(CALL, ("[", SPACE, *CALL))
"""The beginning of one call, or of a list."""
FENCE: Final[Pattern] = ("```", any_of("a-z_"), SPACE)
"""The beginning of a code block."""


def alone(*ends: Edge) -> dict[str, Region]:
    """Return regions of calls that have no marker: they are calls of tools that the client offered, and nothing
    else follows them.

    Args:
        ends: What may follow before the output ends.
    """
    return {
        "alone": CallObjects(then="after alone", otherwise="content", alone=True, offered=True),
        "after alone": Markup(
            (
                Edge((SPACE, ahead(CALLS)), "alone", Act.BEGIN),
                Edge((SPACE, "}", ahead(SPACE, END)), "after alone", slip=Slip.TWICE),
                *ends,
                NO_CALL,
            ),
            ends=True,
        ),
    }


_OPEN: Final = Edge((SPACE, "<tool_call>", SPACE, ahead(one_of("{", "["))), "objects", Act.BEGIN)
_EDGES: Final = (
    Edge((SPACE, "<tool_call>", SPACE, "{", SPACE, ahead("{")), "offered objects", Act.BEGIN, slip=Slip.TWICE),
    *twice(_OPEN, "<tool_call>", to="offered objects"),
    Edge(
        (SPACE, "<tool_call>", SPACE, *FENCE, ahead("{")),
        "offered objects",
        Act.BEGIN,
        slip=Slip.OTHER_NOTATION,
    ),
)

MARKED: Final = Format(
    markers=("<tool_call>", "</tool_call>"),
    called=(Edge((SPACE, "</tool_call>"), "called", slip=Slip.TWICE),),
    content=_EDGES,
    reasoning=_EDGES,
    regions={
        "objects": CallObjects(then="end", otherwise="content"),
        "offered objects": CallObjects(then="end", otherwise="content", offered=True),
        "end": Markup(
            (
                Edge((SPACE, "</tool_call>"), "called", Act.CLOSE),
                # Models put several calls into one markup.
                Edge((SPACE, optional(",", SPACE), ahead("{")), "next", Act.CLOSE),
                Edge((SPACE, "```", SPACE, "</tool_call>"), "called", Act.CLOSE, slip=Slip.OTHER_NOTATION),
                Edge((SPACE, "}", SPACE, "</tool_call>"), "called", Act.CLOSE, slip=Slip.TWICE),
                Edge((SPACE, ahead(ANYTHING)), "called", Act.CLOSE, slip=Slip.NO_END),
            ),
            ends=True,
        ),
        "next": Markup((Edge((ahead("{"),), "objects", Act.BEGIN),)),
    },
)
