"""Calls of Kimi K2: a section of calls, each with an id that contains the tool's name, and JSON arguments."""

from __future__ import annotations

from typing import Final

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import Act, Arguments, Edge, Format, Ids, Markup, Slip, section
from derender.parsing.patterns import ANYTHING, SPACE, ahead, capture, optional

__all__ = ["TOOLS"]

_SECTION: Final = "<|tool_calls_section_begin|>"
_SECTION_ENDS: Final = "<|tool_calls_section_end|>"
_CALL: Final = (
    SPACE,
    "<|tool_call_begin|>",
    SPACE,
    optional("functions."),
    capture("name", r"^:\s<"),
    optional(":", capture("id", "0-9", most=9)),
    SPACE,
    "<|tool_call_argument_begin|>",
)
_CALLS: Final = section((_SECTION,), Edge(_CALL, "arguments", Act.OPEN), _SECTION_ENDS)

TOOLS: Final = Format(
    markers=(
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
    ),
    called=_CALLS.called,
    content=_CALLS.content,
    reasoning=_CALLS.reasoning,
    regions=_CALLS.regions
    | {
        "arguments": Arguments(JSON, then="end"),
        "end": Markup(
            (
                Edge((SPACE, "<|tool_call_end|>"), "calls", Act.CLOSE),
                Edge((SPACE, ahead(ANYTHING)), "calls", Act.CLOSE, slip=Slip.NO_END),
            ),
            ends=True,
        ),
    },
    ids=Ids.KIMI,
)
