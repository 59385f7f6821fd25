"""Calls of Kimi K2: a section of calls, each with an id that contains the tool's name, and JSON arguments."""

from __future__ import annotations

from typing import Final

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import Act, Arguments, Edge, Format, Ids, Markup, section
from derender.parsing.patterns import SPACE, ahead, capture, optional

__all__ = ["TOOLS"]

_SECTION: Final = "<|tool_calls_section_begin|>"
_SECTION_ENDS: Final = "<|tool_calls_section_end|>"
_CALL: Final = (
    "<|tool_call_begin|>",
    SPACE,
    optional("functions."),
    capture("name", r"^:\s<"),
    optional(":", capture("id", "0-9", most=9)),
    SPACE,
    "<|tool_call_argument_begin|>",
)

TOOLS: Final = Format(
    markers=(
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
    ),
    content=(Edge((_SECTION,), "section", Act.BEGIN),),
    # Models quote the marker in their reasoning.
    reasoning=(Edge((_SECTION, SPACE, ahead("<|tool_call_begin|>")), "section", Act.BEGIN),),
    regions=section(Edge(_CALL, "arguments", Act.OPEN), _SECTION_ENDS)
    | {
        "arguments": Arguments(JSON, then="end"),
        "end": Markup(
            (
                Edge(("<|tool_call_end|>",), "calls", Act.CLOSE),
                Edge((ahead("<|tool_call_begin|>"),), "calls", Act.CLOSE),
                Edge((_SECTION_ENDS,), "content", Act.CLOSE),
            ),
            ends=True,
        ),
    },
    ids=Ids.KIMI,
)
