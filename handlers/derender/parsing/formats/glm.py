"""Calls of GLM 4.5 and later.

    <tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>

GLM 4.5 and 4.6 put line breaks between the parts.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import Act, Edge, Format, Slip, twice, with_neighbours
from derender.parsing.patterns import END, LINES, SPACE, ahead, any_of, capture, one_of, optional

from .objects import MARKED
from .parameters import parameter_regions
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
        "parameters body",
        Act.OPEN,
        slip=Slip.OTHER_NOTATION,
    ),
)
_KEY: Final = ("<arg_key>", SPACE, capture("key", r"^<\n"), SPACE)
_VALUE: Final = ("</arg_key>", SPACE, "<arg_value>")
_NO_END: Final = one_of(
    ("</tool_call>", SPACE, one_of("<tool_call>", END)),
    (*_KEY, optional("</arg_key>", SPACE), "<arg_value>"),
    (
        "<tool_call>",
        optional("\n"),
        any_of(r"^<\s", least=1),
        one_of((SPACE, "<arg_key>"), ("</tool_call>", SPACE, one_of("<tool_call>", END))),
    ),
)
"""What follows a value without its end, which may quote the markers."""
_PARAMETER: Final = Edge((*_KEY, *_VALUE), "value", Act.PARAMETER)

_KEYS: Final = Format(
    markers=("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    called=(Edge((SPACE, "</tool_call>"), "called", slip=Slip.TWICE),),
    content=_OPEN,
    reasoning=_OPEN,
    regions=parameter_regions(
        "parameters",
        (
            *twice(_PARAMETER, "<arg_key>", "</arg_key>", "<arg_value>"),
            Edge((*_KEY, "<arg_value>"), "value", Act.PARAMETER, slip=Slip.NO_END),
        ),
        {"value": None},
        "</arg_value>",
        ("</tool_call>",),
        ((ahead("<tool_call>"),),),
        follows=one_of("<arg_key>", "</tool_call>", "<tool_call>", END),
        no_value_ends=((LINES, ahead(_NO_END)),),
    ),
)
TOOLS: Final = with_neighbours(_KEYS, MARKED, FUNCTIONS)
