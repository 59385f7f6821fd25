"""Calls of DeepSeek V3, R1 and V3.1: JSON arguments between control tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import Act, Arguments, Edge, Format, Markup, section
from derender.parsing.patterns import SPACE, ahead, any_of, capture, one_of

if TYPE_CHECKING:
    from derender.parsing.patterns import Pattern

__all__ = ["TOOLS_V3", "TOOLS_V31"]

_BEGIN: Final = "<｜tool▁calls▁begin｜>"
_END: Final = "<｜tool▁calls▁end｜>"
_CALL_BEGIN: Final = "<｜tool▁call▁begin｜>"
_CALL_END: Final = "<｜tool▁call▁end｜>"
_SEPARATOR: Final = "<｜tool▁sep｜>"


def _calls(name: Pattern) -> Format:
    return Format(
        markers=(_BEGIN, _END, _CALL_BEGIN, _CALL_END, _SEPARATOR),
        content=(Edge((SPACE, _BEGIN), "section", Act.BEGIN),),
        # Models quote the marker in their reasoning.
        reasoning=(Edge((SPACE, _BEGIN, SPACE, ahead(_CALL_BEGIN)), "section", Act.BEGIN),),
        regions=section(Edge((_CALL_BEGIN, *name), "arguments", Act.OPEN), _END)
        | {
            "arguments": Arguments(JSON, then="end"),
            "end": Markup(
                (
                    Edge((_CALL_END,), "calls", Act.CLOSE),
                    Edge((ahead(_CALL_BEGIN),), "calls", Act.CLOSE),
                    Edge((_END,), "content", Act.CLOSE),
                ),
                ends=True,
            ),
        },
    )


TOOLS_V3: Final = _calls(
    (any_of("a-z"), _SEPARATOR, capture("name", r"^\s`<"), SPACE, one_of("```json", "```"), SPACE)
)
"""A call is `function<｜tool▁sep｜>NAME` and a code block with the arguments."""
TOOLS_V31: Final = _calls((capture("name", r"^\s<"), _SEPARATOR, SPACE))
"""A call is `NAME<｜tool▁sep｜>` and the arguments."""
