"""Calls of DeepSeek V3, R1 and V3.1: JSON arguments between control tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import Act, Arguments, Edge, Format, Markup, Slip, section
from derender.parsing.patterns import ANYTHING, SPACE, ahead, any_of, capture, one_of, optional

if TYPE_CHECKING:
    from derender.parsing.patterns import Part, Pattern

__all__ = ["TOOLS_V3", "TOOLS_V31"]

_BEGIN: Final = "<｜tool▁calls▁begin｜>"
_END: Final = "<｜tool▁calls▁end｜>"
_CALL_BEGIN: Final = "<｜tool▁call▁begin｜>"
_CALL_END: Final = "<｜tool▁call▁end｜>"
_SEPARATOR: Final = "<｜tool▁sep｜>"


def _calls(name: Pattern, fence: Part = SPACE) -> Format:
    calls = section((SPACE, _BEGIN), Edge((SPACE, _CALL_BEGIN, *name), "arguments", Act.OPEN), _END)
    return Format(
        markers=(_BEGIN, _END, _CALL_BEGIN, _CALL_END, _SEPARATOR),
        called=calls.called,
        content=calls.content,
        reasoning=calls.reasoning,
        regions=calls.regions
        | {
            "arguments": Arguments(JSON, then="end"),
            "end": Markup(
                (
                    Edge((SPACE, fence, _CALL_END), "calls", Act.CLOSE),
                    Edge((SPACE, fence, ahead(ANYTHING)), "calls", Act.CLOSE, slip=Slip.NO_END),
                ),
                ends=True,
            ),
        },
    )


TOOLS_V3: Final = _calls(
    (any_of("a-z"), _SEPARATOR, capture("name", r"^\s`<"), SPACE, one_of("```json", "```"), SPACE),
    fence=optional("```", SPACE),
)
"""A call is `function<｜tool▁sep｜>NAME` and a code block with the arguments."""
TOOLS_V31: Final = _calls((capture("name", r"^\s<"), _SEPARATOR, SPACE))
"""A call is `NAME<｜tool▁sep｜>` and the arguments."""
