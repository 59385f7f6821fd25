"""Calls of GLM 4.5 and later.

    <tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>

GLM 4.5 and 4.6 put line breaks between the parts.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import NO_CALL, Act, Edge, Format, Markup, Slip, Value
from derender.parsing.patterns import END, LINES, SPACE, ahead, capture, one_of, optional

__all__ = ["TOOLS"]

_OPEN: Final = Edge(
    (
        SPACE,
        "<tool_call>",
        SPACE,
        optional("<tool_call>", SPACE),
        capture("name", r"^<\s"),
        ahead(SPACE, one_of("<arg_key>", "</tool_call>")),
    ),
    "parameters",
    Act.OPEN,
)
_KEY: Final = ("<arg_key>", SPACE, capture("key", r"^<\n"), SPACE, "</arg_key>", SPACE, "<arg_value>")

TOOLS: Final = Format(
    markers=("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    called=(Edge((SPACE, "</tool_call>"), "called", slip=Slip.TWICE),),
    content=(_OPEN,),
    reasoning=(_OPEN,),
    regions={
        "parameters": Markup(
            (
                Edge(_KEY, "value", Act.PARAMETER),
                Edge(("</tool_call>",), "called", Act.CLOSE),
                Edge((ahead("<tool_call>"),), "called", Act.CLOSE, slip=Slip.NO_END),
                Edge((SPACE, "</arg_value>"), "parameters", slip=Slip.TWICE),
                NO_CALL,
            ),
            ends=True,
        ),
        "value": Value(
            (
                Edge(
                    (
                        "</arg_value>",
                        ahead(SPACE, one_of("<arg_key>", "</tool_call>", "<tool_call>", "</arg_value>", END)),
                    ),
                    "parameters",
                ),
                Edge(
                    (ahead("</tool_call>", SPACE, one_of("<tool_call>", END)),), "parameters", slip=Slip.NO_END
                ),
                Edge((LINES, ahead(*_KEY)), "parameters", slip=Slip.NO_END),
            ),
        ),
    },
)
