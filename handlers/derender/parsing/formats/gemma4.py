"""Calls and reasoning of Gemma 4.

    <|channel>thought
    …<channel|><|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>

Arguments are a form of JSON with bare keys and a token for the quote. White space around calls belongs to the
text.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.arguments.notation import GEMMA
from derender.parsing.engine.format import Act, Arguments, Edge, Format, Markup, Slip, Thoughts
from derender.parsing.patterns import ANYTHING, LINES, SPACE, ahead, capture, optional

__all__ = ["REASONING", "TOOLS"]

_OPEN: Final = Edge(
    ("<|tool_call>", SPACE, "call:", capture("name", r"^{\s"), SPACE, ahead("{")), "arguments", Act.OPEN
)

TOOLS: Final = Format(
    markers=("<|tool_call>", "<tool_call|>", '<|"|>'),
    called=(Edge((SPACE, "<tool_call|>"), "called", slip=Slip.TWICE),),
    content=(_OPEN,),
    reasoning=(_OPEN,),
    regions={
        "arguments": Arguments(GEMMA, then="end", otherwise="content"),
        "end": Markup(
            (
                Edge((SPACE, "<tool_call|>"), "called", Act.CLOSE),
                Edge((SPACE, ahead(ANYTHING)), "called", Act.CLOSE, slip=Slip.NO_END),
            ),
            ends=True,
        ),
    },
)

_THOUGHT: Final = ("<|channel>", optional("thought"), LINES)
_ENDS: Final = Edge((LINES, "<channel|>", LINES), "answer")
REASONING: Final = Format(
    markers=("<|channel>", "<channel|>"),
    between=(Edge((LINES, *_THOUGHT), "reasoning"), _ENDS),
    reasoning=(_ENDS,),
    thoughts=(Thoughts("<|channel>", "<channel|>"),),
)
