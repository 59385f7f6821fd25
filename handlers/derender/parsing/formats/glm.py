"""Calls of GLM 4.5 and later.

    <tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>

GLM 4.5 and 4.6 put line breaks between the parts.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import (
    NO_CALL,
    Act,
    Arguments,
    Edge,
    Format,
    Markup,
    Slip,
    Value,
    twice,
    with_neighbours,
)
from derender.parsing.patterns import END, LINES, SPACE, ahead, any_of, capture, one_of, optional

from .objects import MARKED
from .qwen3_xml import FUNCTIONS

__all__ = ["TOOLS"]

_CALL: Final = (
    "<tool_call>",
    SPACE,
    capture("name", r"^<\s"),
    ahead(SPACE, one_of("<arg_key>", "</tool_call>")),
)
_OPEN: Final = (
    *twice(Edge((SPACE, *_CALL), "parameters", Act.OPEN), "<tool_call>"),
    Edge(
        (SPACE, "<tool_call>", SPACE, capture("name", r"^<\s{"), SPACE, ahead("{", SPACE, one_of('"', "}"))),
        "body",
        Act.OPEN,
        slip=Slip.OTHER_NOTATION,
    ),
)
_NEXT_CALL: Final = (
    "<tool_call>",
    optional("\n"),
    any_of(r"^<\s", least=1),
    one_of((SPACE, "<arg_key>"), ("</tool_call>", SPACE, one_of("<tool_call>", END))),
)
"""Another call before the end of a value, which may quote the markers."""
_NEXT: Final = one_of("<arg_key>", "</tool_call>", "<tool_call>", END)
_KEY: Final = ("<arg_key>", SPACE, capture("key", r"^<\n"), SPACE)
_VALUE: Final = ("</arg_key>", SPACE, "<arg_value>")
_PARAMETER: Final = Edge((*_KEY, *_VALUE), "value", Act.PARAMETER)

_KEYS: Final = Format(
    markers=("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    called=(Edge((SPACE, "</tool_call>"), "called", slip=Slip.TWICE),),
    content=_OPEN,
    reasoning=_OPEN,
    regions={
        "parameters": Markup(
            (
                *twice(_PARAMETER, "<arg_key>", "</arg_key>", "<arg_value>"),
                Edge((*_KEY, "<arg_value>"), "value", Act.PARAMETER, slip=Slip.NO_END),
                Edge(("</tool_call>",), "called", Act.CLOSE),
                Edge((ahead("<tool_call>"),), "called", Act.CLOSE, slip=Slip.NO_END),
                Edge((SPACE, "</arg_value>"), "parameters", slip=Slip.TWICE),
                NO_CALL,
            ),
            ends=True,
        ),
        "body": Arguments(JSON, then="parameters", otherwise="content"),
        "value": Value(
            (
                Edge(
                    (
                        "</arg_value>",
                        ahead(SPACE, optional("</arg_value>", SPACE), _NEXT),
                    ),
                    "parameters",
                ),
                Edge(
                    (
                        LINES,
                        ahead(
                            one_of(
                                ("</tool_call>", SPACE, one_of("<tool_call>", END)),
                                (*_KEY, optional("</arg_key>", SPACE), "<arg_value>"),
                                _NEXT_CALL,
                            )
                        ),
                    ),
                    "parameters",
                    slip=Slip.NO_END,
                ),
            ),
        ),
    },
)
TOOLS: Final = with_neighbours(_KEYS, MARKED, FUNCTIONS)
