r"""Calls of Qwen3-Coder and Qwen3.5 and later.

    <tool_call>
    <function=get_weather>
    <parameter=city>
    Paris
    </parameter>
    </function>
    </tool_call>

In Qwen's vocabularies only `<tool_call>` and `</tool_call>` are tokens, and models forget either. A value
ends only if markup follows its end, too. The template puts values on lines of their own.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import NO_CALL, Act, Edge, Format, Markup, Slip, Value
from derender.parsing.patterns import END, SPACE, ahead, capture, one_of, optional

__all__ = ["TOOLS"]

_FUNCTION: Final = (
    "<function=",
    capture("name", r"^>\s"),
    ">",
    ahead(SPACE, one_of("<parameter=", "</function>", "</tool_call>")),
)
_OPEN: Final = (
    Edge((SPACE, "<tool_call>", SPACE, optional("<tool_call>", SPACE), *_FUNCTION), "parameters", Act.OPEN),
    Edge((SPACE, *_FUNCTION), "parameters", Act.OPEN, slip=Slip.NO_SECTION),
)
_FUNCTION_ENDS: Final = (
    "</function>",
    one_of((SPACE, "</tool_call>"), ahead(SPACE, one_of("<tool_call>", "<function=", "</function>", END))),
)
_PARAMETER: Final = ("<parameter=", capture("key", r"^>\n"), ">")
_LINE: Final = optional("\n")
_MARKUP: Final = one_of(
    "<parameter=", _FUNCTION_ENDS, "</tool_call>", "</parameter>", ("<tool_call>", SPACE, *_FUNCTION)
)

TOOLS: Final = Format(
    markers=("<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"),
    called=(Edge((SPACE, one_of("</tool_call>", "</function>")), "called", slip=Slip.TWICE),),
    content=_OPEN,
    reasoning=_OPEN,
    regions={
        "parameters": Markup(
            (
                Edge((*_PARAMETER, _LINE), "value", Act.PARAMETER),
                Edge(_FUNCTION_ENDS, "called", Act.CLOSE),
                Edge(("</tool_call>",), "called", Act.CLOSE, slip=Slip.NO_END),
                Edge((ahead(SPACE, "<tool_call>", SPACE, *_FUNCTION),), "called", Act.CLOSE, slip=Slip.NO_END),
                Edge((SPACE, "</parameter>"), "parameters", slip=Slip.TWICE),
                NO_CALL,
            ),
            ends=True,
        ),
        "value": Value(
            (
                Edge((_LINE, "</parameter>", ahead(SPACE, _MARKUP)), "parameters"),
                Edge(("\n", ahead(*_PARAMETER, "\n")), "parameters", slip=Slip.NO_END),
                Edge((_LINE, ahead(*_FUNCTION_ENDS)), "parameters", slip=Slip.NO_END),
            ),
        ),
    },
)
