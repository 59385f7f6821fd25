"""DSML, the calls of DeepSeek V3.2 and later.

    <｜DSML｜function_calls>
    <｜DSML｜invoke name="get_weather">
    <｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>
    </｜DSML｜invoke>
    </｜DSML｜function_calls>

`string` tells whether the value is text or JSON. V4 has `tool_calls` for `function_calls`. V4.1 has `calls`,
and a space before each name. Models write the section of another version, too.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import Format

from .elements import Dialect, calls_of

__all__ = ["TOOLS_V4", "TOOLS_V32", "TOOLS_V41"]


def _calls(space: str = "") -> Format:
    dialect = Dialect(
        opens=f"<｜DSML｜{space}",
        closes=f"</｜DSML｜{space}",
        ends=">",
        sections=("function_calls", "tool_calls", "calls"),
        call="invoke",
        name="name",
        parameter="parameter",
        key="name",
        kind="string",
        text="true",
        json="false",
    )
    section = calls_of(dialect)
    return Format(
        markers=("｜DSML｜",),
        called=section.called,
        content=section.content,
        reasoning=section.reasoning,
        regions=section.regions,
    )


TOOLS_V32: Final = _calls()
TOOLS_V4: Final = TOOLS_V32
TOOLS_V41: Final = _calls(" ")
