"""Calls and reasoning of Gemma 4.

    <|channel>thought
    …<channel|><|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>

Arguments are a form of JSON with bare keys and a token for the quote. White space around calls belongs to the
text.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.arguments.notation import GEMMA
from derender.parsing.engine.format import (
    Act,
    Arguments,
    CallObjects,
    Edge,
    Format,
    Markup,
    Shows,
    Slip,
    Text,
    Thoughts,
    twice,
)
from derender.parsing.patterns import ANYTHING, LINES, OTHER_TEXT, SPACE, ahead, capture, optional

from .objects import CALL

__all__ = ["REASONING", "TOOLS"]

_NAME: Final = (capture("name", r"^{\s"), SPACE, ahead("{"))
_OPEN: Final = (
    *twice(
        Edge(("<|tool_call>", SPACE, "call:", SPACE, *_NAME), "arguments", Act.OPEN), "<|tool_call>", "call:"
    ),
    Edge(
        ("<|tool_call>", SPACE, "call:", SPACE, capture("name", r"^<{\s"), SPACE, "<tool_call|>"),
        "called",
        Act.OPEN_CLOSE,
        slip=Slip.NO_END,
    ),
    Edge(("<|tool_call>", SPACE, *_NAME), "arguments", Act.OPEN, slip=Slip.OTHER_NOTATION),
    Edge(("<|tool_call>", SPACE, ahead(*CALL)), "objects", Act.BEGIN, slip=Slip.OTHER_NOTATION),
)

TOOLS: Final = Format(
    markers=("<|tool_call>", "<tool_call|>", '<|"|>'),
    called=(Edge((SPACE, "<tool_call|>"), "called", slip=Slip.TWICE),),
    content=_OPEN,
    reasoning=_OPEN,
    regions={
        "arguments": Arguments(GEMMA, then="end", otherwise="content"),
        "objects": CallObjects(then="end", otherwise="content", offered=True),
        "end": Markup(
            (
                Edge((SPACE, "<tool_call|>"), "called", Act.CLOSE),
                Edge((SPACE, "}", SPACE, "<tool_call|>"), "called", Act.CLOSE, slip=Slip.TWICE),
                Edge((ahead(SPACE, ANYTHING),), "called", Act.CLOSE, slip=Slip.NO_END),
            ),
            ends=True,
        ),
    },
)

_THOUGHT: Final = ("<|channel>", optional("thought"), LINES)
_ENDS: Final = Edge((LINES, "<channel|>", LINES), "answer")
REASONING: Final = Format(
    markers=("<|channel>", "<channel|>"),
    between=(Edge((LINES, *_THOUGHT), "thinking"), _ENDS),
    reasoning=(_ENDS,),
    regions={
        "thinking": Text(
            Shows.REASONING,
            (
                Edge((LINES, *_THOUGHT), "thinking", slip=Slip.TWICE),
                _ENDS,
                Edge(OTHER_TEXT, "reasoning"),
            ),
        ),
    },
    thoughts=(Thoughts("<|channel>", "<channel|>"),),
)
