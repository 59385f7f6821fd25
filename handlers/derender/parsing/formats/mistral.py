"""Calls and reasoning of Mistral's models, by the version of their tokenizer.

    v3:       [TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}]
    v11, v13: [TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}

v11 may have `[CALL_ID]` and an id before `[ARGS]`. Reasoning is between `[THINK]` and `[/THINK]`, or with v11
between `<think>` and `</think>`. Only its end marker ends it, because models quote the other markers in it.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import (
    Act,
    Arguments,
    CallObjects,
    Edge,
    Format,
    Ids,
    Shows,
    Slip,
    Text,
    Thoughts,
    twice,
)
from derender.parsing.patterns import END, LINES, OTHER_TEXT, SPACE, ahead, capture, one_of, optional

from .objects import CALL, CALLS, alone

__all__ = ["REASONING", "TOOLS"]

_MARK: Final = ("[TOOL_CALLS]", SPACE)
_NAME: Final = (capture("name", r"^\s{\["), optional("[CALL_ID]", capture("id", "A-Za-z0-9")))
_UNMARKED: Final = (*_NAME, "[ARGS]", ahead(SPACE, "{"))

TOOLS: Final = Format(
    markers=("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    first=(Edge((SPACE, ahead(CALLS)), "alone", Act.BEGIN, slip=Slip.NO_SECTION),),
    between=(Edge((SPACE, *_UNMARKED), "arguments", Act.OPEN, slip=Slip.NO_SECTION),),
    called=(
        Edge((SPACE, "]"), "called", slip=Slip.TWICE),
        Edge((SPACE, "}", ahead(SPACE, one_of("[TOOL_CALLS]", END))), "called", slip=Slip.TWICE),
    ),
    content=(
        *twice(
            Edge((*_MARK, ahead("[", SPACE, "{")), "objects", Act.BEGIN), "[TOOL_CALLS]", to="offered objects"
        ),
        *twice(Edge((*_MARK, *_NAME, "[ARGS]"), "arguments", Act.OPEN), "[TOOL_CALLS]", "[ARGS]"),
        *twice(Edge((*_MARK, *_NAME, ahead(SPACE, "{")), "arguments", Act.OPEN), "[TOOL_CALLS]"),
        Edge((*_MARK, ahead(*CALL)), "offered objects", Act.BEGIN, slip=Slip.OTHER_NOTATION),
        Edge((SPACE, "\n", *_UNMARKED), "arguments", Act.OPEN, slip=Slip.NO_SECTION),
    ),
    regions={
        "objects": CallObjects(then="called", otherwise="content", closes=True),
        "offered objects": CallObjects(then="called", otherwise="content", closes=True, offered=True),
        "arguments": Arguments(JSON, then="called", otherwise="content", closes=True),
        **alone(),
    },
    ids=Ids.MISTRAL,
)

_END: Final = Edge((LINES, "[/THINK]", LINES), "answer")
REASONING: Final = Format(
    markers=("[THINK]", "[/THINK]", "<think>", "</think>"),
    between=(
        Edge((LINES, "[THINK]", LINES), "thinking"),
        _END,
        Edge((LINES, "<think>", LINES), "reasoning in text"),
    ),
    reasoning=(_END,),
    regions={
        "thinking": Text(
            Shows.REASONING,
            (
                Edge((LINES, "[THINK]", LINES), "thinking", slip=Slip.TWICE),
                _END,
                Edge(OTHER_TEXT, "reasoning"),
            ),
        ),
        "reasoning in text": Text(Shows.REASONING, (Edge((LINES, "</think>", LINES), "answer"),)),
    },
    thoughts=(Thoughts("[THINK]", "[/THINK]"), Thoughts("<think>", "</think>", "reasoning in text")),
)
