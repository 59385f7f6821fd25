"""DSML, the calls of DeepSeek V3.2 and later.

    <｜DSML｜function_calls>
    <｜DSML｜invoke name="get_weather">
    <｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>
    </｜DSML｜invoke>
    </｜DSML｜function_calls>

`string` tells whether the value is text or JSON. V4 has `tool_calls` for `function_calls`. V4.1 has `calls`,
and a space before each name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import (
    Act,
    Arguments,
    Edge,
    Format,
    Markup,
    Slip,
    Value,
    section,
)
from derender.parsing.patterns import ANYTHING, END, SPACE, ahead, capture, one_of

if TYPE_CHECKING:
    from derender.parsing.arguments.values import DeclaredType

__all__ = ["TOOLS_V4", "TOOLS_V32", "TOOLS_V41"]


def _calls(calls: str, space: str = "") -> Format:
    def open_tag(name: str) -> str:
        return f"<｜DSML｜{space}{name}"

    def close_tag(name: str) -> str:
        return f"</｜DSML｜{space}{name}>"

    invoke = (SPACE, open_tag("invoke"), SPACE, 'name="', capture("name", r'^"\n'), '"', SPACE)
    parameter = (open_tag("parameter"), SPACE, 'name="', capture("key", r'^"\n'), '"', SPACE)
    next_markup = one_of(open_tag("parameter"), open_tag("invoke"), close_tag("invoke"), close_tag(calls), END)
    ends = (close_tag("parameter"), ahead(SPACE, one_of(next_markup, close_tag("parameter"))))
    sections = section(
        (SPACE, f"{open_tag(calls)}>"),
        Edge((*invoke, ">", SPACE, ahead("{")), "body", Act.OPEN, slip=Slip.OTHER_NOTATION),
        close_tag(calls),
        Edge((*invoke, ">"), "parameters", Act.OPEN),
        Edge((*invoke, "/>"), "calls", Act.OPEN_CLOSE),
    )

    def value(declared: DeclaredType | None) -> Value:
        return Value((Edge(ends, "parameters"),), declared)

    return Format(
        markers=("｜DSML｜",),
        called=(*sections.called, Edge((SPACE, close_tag("invoke")), "called", slip=Slip.TWICE)),
        content=sections.content,
        reasoning=sections.reasoning,
        regions=sections.regions
        | {
            "parameters": Markup(
                (
                    Edge((*parameter, 'string="true">'), "text", Act.PARAMETER),
                    Edge((*parameter, 'string="false">'), "json", Act.PARAMETER),
                    Edge((*parameter, ">"), "value", Act.PARAMETER),
                    Edge((close_tag("invoke"),), "calls", Act.CLOSE),
                    Edge(
                        (ahead(SPACE, one_of(open_tag("invoke"), close_tag(calls))),),
                        "calls",
                        Act.CLOSE,
                        slip=Slip.NO_END,
                    ),
                    Edge((SPACE, close_tag("parameter")), "parameters", slip=Slip.TWICE),
                    Edge((ahead(ANYTHING),), "calls"),
                ),
                ends=True,
            ),
            "body": Arguments(JSON, then="parameters", otherwise="calls"),
            "text": value("string"),
            "json": value("json"),
            "value": value(None),
        },
    )


TOOLS_V32: Final = _calls("function_calls")
TOOLS_V4: Final = _calls("tool_calls")
TOOLS_V41: Final = _calls("calls", " ")
