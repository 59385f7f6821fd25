"""Calls of Kimi K2: a section of calls, each with an id that contains the tool's name, and JSON arguments."""

from __future__ import annotations

from typing import Final

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import Act, Arguments, Body, Edge, Format, Ids, Markup, Slip, section, twice
from derender.parsing.patterns import ANYTHING, SPACE, ahead, any_of, capture, one_of, optional

from .unnamed import name_by_arguments

__all__ = ["TOOLS"]

_SECTION: Final = "<|tool_calls_section_begin|>"
_SECTION_ENDS: Final = "<|tool_calls_section_end|>"
_CALL_ENDS: Final = "<|tool_call_end|>"
_BEGIN: Final = (SPACE, "<|tool_call_begin|>", SPACE, optional("functions."))
_ARGUMENTS: Final = (SPACE, "<|tool_call_argument_begin|>")
_ID: Final = optional(":", capture("id", "0-9", most=9))
_NAME: Final = capture("name", r"^:\s<{")
_CALL: Final = Edge((*_BEGIN, _NAME, _ID, *_ARGUMENTS), "arguments", Act.OPEN)
_CALLS: Final = section(
    (_SECTION,),
    _SECTION_ENDS,
    "<|tool_call_begin|>",
    _CALL_ENDS,
    (
        Edge((*_BEGIN, any_of("0-9", least=1, most=9), *_ARGUMENTS), "unnamed", Act.BEGIN, slip=Slip.NO_NAME),
        *twice(_CALL, "<|tool_call_begin|>", "<|tool_call_argument_begin|>"),
        Edge((*_BEGIN, _NAME, _ID, SPACE, ahead("{")), "arguments", Act.OPEN, slip=Slip.NO_END),
        Edge((*_BEGIN, _NAME, _ID, SPACE, _CALL_ENDS), "call ended", Act.OPEN_CLOSE, slip=Slip.NO_END),
    ),
    preface=False,
)

TOOLS: Final = Format(
    markers=(
        _SECTION,
        _SECTION_ENDS,
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        _CALL_ENDS,
    ),
    called=_CALLS.called,
    content=_CALLS.content,
    reasoning=_CALLS.reasoning,
    regions=_CALLS.regions
    | {
        "arguments": Arguments(JSON, then="end"),
        "unnamed": Body(
            (
                Edge((_CALL_ENDS,), "call ended", Act.CLOSE),
                Edge(
                    (ahead(one_of("<|tool_call_begin|>", _SECTION_ENDS)),),
                    "call ended",
                    Act.CLOSE,
                    slip=Slip.NO_END,
                ),
            ),
            name_by_arguments,
        ),
        "end": Markup(
            (
                Edge((SPACE, _CALL_ENDS), "call ended", Act.CLOSE),
                Edge((SPACE, "}", SPACE, _CALL_ENDS), "call ended", Act.CLOSE, slip=Slip.TWICE),
                Edge((SPACE, ahead(ANYTHING)), "call ended", Act.CLOSE, slip=Slip.NO_END),
            ),
            ends=True,
        ),
    },
    ids=Ids.KIMI,
)
