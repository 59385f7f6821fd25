"""Calls and reasoning of Gemma 4.

    <|channel>thought
    …<channel|><|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>

Arguments are a form of JSON with bare keys and a token for the quote. White space around calls belongs to the
text.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.arguments.notation import GEMMA
from derender.parsing.engine.format import Act, Arguments, Edge, Format, Markup, Thoughts
from derender.parsing.patterns import SPACE, ahead, capture, optional

__all__ = ["REASONING", "TOOLS"]

_OPEN: Final = Edge(
    ("<|tool_call>", SPACE, "call:", capture("name", r"^{\s"), SPACE, ahead("{")), "arguments", Act.OPEN
)

TOOLS: Final = Format(
    markers=("<|tool_call>", "<tool_call|>", '<|"|>'),
    content=(_OPEN,),
    reasoning=(_OPEN,),
    regions={
        "arguments": Arguments(GEMMA, then="end", otherwise="content"),
        "end": Markup(
            (
                Edge((SPACE, "<tool_call|>"), "content", Act.CLOSE),
                Edge((ahead("<|tool_call>"),), "content", Act.CLOSE),
            ),
            ends=True,
        ),
    },
)

_THOUGHT: Final = ("<|channel>", optional("thought"), SPACE)
_ENDS: Final = (SPACE, "<channel|>", SPACE)
REASONING: Final = Format(
    markers=("<|channel>", "<channel|>"),
    content=(Edge((SPACE, *_THOUGHT), "reasoning"), Edge(_ENDS, "answer")),
    reasoning=(Edge(_ENDS, "answer"),),
    thoughts=(Thoughts("<|channel>", "<channel|>"),),
)
