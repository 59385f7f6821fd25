"""Calls of DeepSeek V3, R1 and V3.1: JSON arguments between control tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import Act, Arguments, Edge, Format, Markup, Slip, section, twice
from derender.parsing.patterns import ANYTHING, SPACE, ahead, any_of, capture, one_of, optional

if TYPE_CHECKING:
    from derender.parsing.patterns import Pattern

__all__ = ["TOOLS_V3", "TOOLS_V31"]

_BEGIN: Final = "<｜tool▁calls▁begin｜>"
_END: Final = "<｜tool▁calls▁end｜>"
_CALL_BEGIN: Final = "<｜tool▁call▁begin｜>"
_CALL_END: Final = "<｜tool▁call▁end｜>"
_SEPARATOR: Final = "<｜tool▁sep｜>"
_NAME: Final = capture("name", r"^\s`<{")
_FENCE: Final = one_of("```json", "```")
_V3: Final = (any_of("a-z"), _SEPARATOR, _NAME, SPACE, _FENCE, SPACE)
_V31: Final = (_NAME, _SEPARATOR, SPACE)
_EITHER: Final = (
    optional(any_of("a-z"), _SEPARATOR),
    _NAME,
    SPACE,
    optional(_SEPARATOR, SPACE),
    optional(_FENCE, SPACE),
    ahead("{"),
)
"""Either form, or what is left of it without a separator or a code block."""


def _calls(own: Pattern) -> Format:
    call = Edge((SPACE, _CALL_BEGIN, *own), "arguments", Act.OPEN)
    # Before either form, so that it calls tools that were not offered, too.
    begun = replace(call, pattern=(*call.pattern, ahead("{")))
    either = Edge((SPACE, _CALL_BEGIN, *_EITHER), "arguments", Act.OPEN, slip=Slip.OTHER_NOTATION)
    calls = section(
        (SPACE, _BEGIN),
        _END,
        _CALL_BEGIN,
        _CALL_END,
        (begun, either, *twice(call, _CALL_BEGIN, _SEPARATOR)),
    )
    fence = optional("```", SPACE)
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
                    Edge((SPACE, fence, _CALL_END), "call ended", Act.CLOSE),
                    Edge((SPACE, "}", SPACE, fence, _CALL_END), "call ended", Act.CLOSE, slip=Slip.TWICE),
                    Edge((SPACE, fence, ahead(ANYTHING)), "call ended", Act.CLOSE, slip=Slip.NO_END),
                ),
                ends=True,
            ),
        },
    )


TOOLS_V3: Final = _calls(_V3)
"""A call is `function<｜tool▁sep｜>NAME` and a code block with the arguments."""
TOOLS_V31: Final = _calls(_V31)
"""A call is `NAME<｜tool▁sep｜>` and the arguments."""
