"""Calls and reasoning of Mistral's models, by the version of their tokenizer.

    v3:       [TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}]
    v11, v13: [TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}

v11 may have `[CALL_ID]` and an id before `[ARGS]`. Reasoning is between `[THINK]` and `[/THINK]`, or with v11
between `<think>` and `</think>`. Only its end marker ends it, because models quote the other markers in it.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.arguments.notation import JSON
from derender.parsing.engine.format import Act, Arguments, CallObjects, Edge, Format, Ids, Shows, Text, Thoughts
from derender.parsing.patterns import LINES, SPACE, ahead, capture, one_of, optional

__all__ = ["REASONING", "TOOLS"]

TOOLS: Final = Format(
    markers=("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    content=(
        Edge(("[TOOL_CALLS]", SPACE, ahead("[", SPACE, "{")), "objects", Act.BEGIN),
        Edge(
            (
                "[TOOL_CALLS]",
                SPACE,
                capture("name", r"^\s{\["),
                optional("[CALL_ID]", capture("id", "A-Za-z0-9")),
                one_of("[ARGS]", (ahead(SPACE, "{"),)),
            ),
            "arguments",
            Act.OPEN,
        ),
    ),
    regions={
        "objects": CallObjects(then="called", closes=True),
        "arguments": Arguments(JSON, then="called", closes=True),
    },
    ids=Ids.MISTRAL,
)

_END: Final = Edge((LINES, "[/THINK]", LINES), "answer")
REASONING: Final = Format(
    markers=("[THINK]", "[/THINK]", "<think>", "</think>"),
    between=(
        Edge((LINES, "[THINK]", LINES), "reasoning"),
        _END,
        Edge((LINES, "<think>", LINES), "reasoning in text"),
    ),
    reasoning=(_END,),
    regions={"reasoning in text": Text(Shows.REASONING, (Edge((LINES, "</think>", LINES), "answer"),))},
    thoughts=(Thoughts("[THINK]", "[/THINK]"), Thoughts("<think>", "</think>", "reasoning in text")),
)
