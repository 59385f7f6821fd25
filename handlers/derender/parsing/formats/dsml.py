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

from typing import Final

from derender.parsing.engine.format import NO_CALL, Act, Edge, Format, Markup, Value, section
from derender.parsing.patterns import END, SPACE, ahead, capture, one_of

__all__ = ["TOOLS_V4", "TOOLS_V32", "TOOLS_V41"]


def _calls(calls: str, space: str = "") -> Format:
    def open_tag(name: str) -> str:
        return f"<｜DSML｜{space}{name}"

    def close_tag(name: str) -> str:
        return f"</｜DSML｜{space}{name}>"

    begins = (SPACE, f"{open_tag(calls)}>")
    invoke = (open_tag("invoke"), SPACE, 'name="', capture("name", r'^"\n'), '"', SPACE)
    parameter = (open_tag("parameter"), SPACE, 'name="', capture("key", r'^"\n'), '"', SPACE)
    ends = (
        close_tag("parameter"),
        ahead(SPACE, one_of(open_tag("parameter"), close_tag("invoke"), END)),
    )
    return Format(
        markers=("｜DSML｜",),
        content=(Edge(begins, "section", Act.BEGIN),),
        # Models quote the marker in their reasoning.
        reasoning=(Edge((*begins, SPACE, ahead(open_tag("invoke"))), "section", Act.BEGIN),),
        regions=section(
            Edge((*invoke, ">"), "parameters", Act.OPEN),
            close_tag(calls),
            Edge((*invoke, "/>"), "calls", Act.OPEN_CLOSE),
        )
        | {
            "parameters": Markup(
                (
                    Edge((*parameter, 'string="true">'), "text", Act.PARAMETER),
                    Edge((*parameter, 'string="false">'), "json", Act.PARAMETER),
                    Edge((*parameter, ">"), "value", Act.PARAMETER),
                    Edge((close_tag("invoke"),), "calls", Act.CLOSE),
                    NO_CALL,
                ),
            ),
            "text": Value((Edge(ends, "parameters"),), declared="string"),
            "json": Value((Edge(ends, "parameters"),), declared="json"),
            "value": Value((Edge(ends, "parameters"),)),
        },
    )


TOOLS_V32: Final = _calls("function_calls")
TOOLS_V4: Final = _calls("tool_calls")
TOOLS_V41: Final = _calls("calls", " ")
