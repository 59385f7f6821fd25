"""Calls of GLM 4.5 and later.

    <tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>

GLM 4.5 and 4.6 put line breaks between the parts. Models leave out the last `</arg_value>`.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import NO_CALL, Act, Edge, Format, Markup, Value
from derender.parsing.patterns import END, SPACE, ahead, capture, one_of

__all__ = ["TOOLS"]

_OPEN: Final = Edge(
    (SPACE, "<tool_call>", SPACE, capture("name", r"^<\s"), ahead(SPACE, one_of("<arg_key>", "</tool_call>"))),
    "parameters",
    Act.OPEN,
)
_ENDS: Final = ("</tool_call>",)

TOOLS: Final = Format(
    markers=("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    content=(_OPEN,),
    reasoning=(_OPEN,),
    regions={
        "parameters": Markup(
            (
                Edge(
                    ("<arg_key>", SPACE, capture("key", r"^<\n"), SPACE, "</arg_key>", SPACE, "<arg_value>"),
                    "value",
                    Act.PARAMETER,
                ),
                Edge(_ENDS, "content", Act.CLOSE),
                Edge((ahead("<tool_call>"),), "content", Act.CLOSE),
                NO_CALL,
            ),
        ),
        "value": Value(
            (
                Edge(
                    ("</arg_value>", ahead(SPACE, one_of("<arg_key>", _ENDS, "<tool_call>", END))), "parameters"
                ),
                Edge((ahead("</tool_call>", SPACE, one_of("<tool_call>", END)),), "parameters"),
            ),
        ),
    },
)
