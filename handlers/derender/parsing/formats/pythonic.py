"""Calls as a list of Python calls: `[get_weather(city="Paris"), get_time()]`. The whole answer is one list."""

from __future__ import annotations

from typing import Final

from derender.parsing.arguments.notation import CALL_ARGUMENTS, PYTHON
from derender.parsing.engine.format import NO_CALL, Act, Arguments, Edge, Format, Markup
from derender.parsing.patterns import SPACE, ahead, capture

__all__ = ["LLAMA4", "TOOLS"]

_CALL: Final = (capture("name", r"A-Za-z0-9_.\-"), SPACE, "(")
_LIST: Final = ("[", SPACE, ahead(*_CALL))

TOOLS: Final = Format(
    first=(Edge((SPACE, *_LIST), "calls", Act.BEGIN),),
    regions={
        "calls": Markup(
            (
                Edge((SPACE, *_CALL), "arguments", Act.OPEN),
                Edge((SPACE, "]"), "called", Act.CLOSE),
                NO_CALL,
            ),
        ),
        "after a call": Markup(
            (Edge((SPACE, ","), "calls"), Edge((SPACE, "]"), "called", Act.CLOSE), NO_CALL),
        ),
        "arguments": Arguments(
            PYTHON, start=CALL_ARGUMENTS, then="after a call", otherwise="content", listed=True
        ),
    },
    offered_only=True,
)
LLAMA4: Final = Format(
    markers=("<|python_start|>", "<|python_end|>"),
    first=TOOLS.first,
    content=(
        Edge((SPACE, "<|python_start|>", SPACE, *_LIST), "calls", Act.BEGIN),
        Edge((SPACE, "<|python_end|>"), "content"),
    ),
    regions=TOOLS.regions,
    offered_only=True,
)
"""Llama 4 may put the list between `<|python_start|>` and `<|python_end|>`."""
