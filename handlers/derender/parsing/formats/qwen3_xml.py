"""Calls of Qwen3-Coder and Qwen3.5 and later.

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

from typing import TYPE_CHECKING, Final

from derender.parsing.engine.format import Act, Edge, Format, Slip, twice, with_neighbours
from derender.parsing.patterns import END, GAP, SPACE, ahead, any_of, capture, one_of, optional, same

from .objects import MARKED
from .parameters import parameter_regions

if TYPE_CHECKING:
    from derender.parsing.engine.format import Region
    from derender.parsing.patterns import Part, Pattern

__all__ = ["FUNCTIONS", "TOOLS"]


def _function(name: Part) -> Pattern:
    return ("<function=", name, ">")


def _parameter(key: Part) -> Pattern:
    return ("<parameter=", key, ">")


_NAME: Final = _function(capture("name", r"^>\s"))
_FUNCTION: Final = (*_NAME, ahead(SPACE, one_of("<parameter=", "</function>", "</tool_call>")))
_OBJECT: Final = (*_NAME, SPACE, ahead("{", SPACE, one_of('"', "}")))
_TWICE: Final = (*_NAME, SPACE, *_function(same("name")), ahead(SPACE, "<parameter="))
_PARAMETER: Final = _parameter(capture("key", r"^>\n"))
_ON_ONE_LINE: Final = (*_PARAMETER, any_of(r"^<\n"), "</parameter>")
"""A whole parameter, which follows a value that has no end. A value may quote a part of one."""
_LINE: Final = optional("\n")
_MARK: Final = (SPACE, "<tool_call>", SPACE)
_MARKED: Final = Edge((*_MARK, *_FUNCTION), "function", Act.OPEN)
_OPEN: Final = (
    *twice(_MARKED, "<tool_call>"),
    Edge((*_MARK, *_TWICE), "function", Act.OPEN, slip=Slip.TWICE),
    Edge((*_MARK, *_OBJECT), "function body", Act.OPEN, slip=Slip.OTHER_NOTATION),
    Edge((SPACE, *_FUNCTION), "unmarked function", Act.OPEN, slip=Slip.NO_SECTION),
)
_NEXT_CALL: Final = (optional("<tool_call>", SPACE), *_FUNCTION)
_ENDS: Final = ("</function>", optional(SPACE, "</tool_call>"))
_UNMARKED_ENDS: Final = (
    "</function>",
    one_of((SPACE, "</tool_call>"), ahead(SPACE, one_of("<tool_call>", "<function=", "</function>", END))),
)
"""The end of a call that has no marker, or whose last value has no end. Before other text, it is quoted."""
_LAST_ENDS: Final = one_of(_UNMARKED_ENDS, ("</tool_call>", SPACE, one_of("<tool_call>", END)))


def _parameters(parameters: str, value: str, ends: Pattern) -> dict[str, Region]:
    """Return the regions of a call's parameters.

    Args:
        parameters: The name of the region between them.
        value: The name of the region of their values.
        ends: What ends the call.
    """
    return parameter_regions(
        parameters,
        (
            Edge((*_PARAMETER, GAP, *_parameter(same("key")), _LINE), value, Act.PARAMETER, slip=Slip.TWICE),
            Edge((*_PARAMETER, _LINE), value, Act.PARAMETER),
        ),
        {value: None},
        "</parameter>",
        ends,
        (("</tool_call>",), (ahead(SPACE, *_NEXT_CALL),)),
        follows=one_of("<parameter=", ends, "</tool_call>", _NEXT_CALL, END),
        no_value_ends=(
            ("\n", ahead(*_PARAMETER, "\n")),
            (_LINE, ahead(one_of(_ON_ONE_LINE, _LAST_ENDS, _NEXT_CALL))),
        ),
        line=(_LINE,),
    )


FUNCTIONS: Final = Format(
    markers=("<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"),
    called=(Edge((SPACE, one_of("</tool_call>", "</function>")), "called", slip=Slip.TWICE),),
    content=_OPEN,
    reasoning=_OPEN,
    regions={
        **_parameters("function", "parameter", _ENDS),
        **_parameters("unmarked function", "unmarked parameter", _UNMARKED_ENDS),
    },
)
TOOLS: Final = with_neighbours(FUNCTIONS, MARKED)
