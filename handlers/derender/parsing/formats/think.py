"""Reasoning between `<think>` and `</think>`.

Templates put line breaks around the markers, which belong neither to the reasoning nor to the answer. If the
prompt opens the reasoning, the output has no `<think>`. An answer may name the markers, so once it has begun
they are text.
"""

from __future__ import annotations

from typing import Final

from derender.parsing.engine.format import Edge, Format, Shows, Slip, Text, Thoughts
from derender.parsing.patterns import LINES, OTHER_TEXT

__all__ = ["DEEPSEEK_R1", "DEEPSEEK_V3", "GLM45", "GLM47", "KIMI_K2", "QWEN3", "think"]


def think(*, start: str, begins: str = "<think>", ends: str = "</think>") -> Format:
    """Return the format of reasoning between two markers. If the client switched thinking on, the prompt may
    open it.

    Args:
        start: The region an output begins in if nothing is known: "answer" or "thinking".
        begins: The marker that begins it.
        ends: The marker that ends it.
    """
    begin = (LINES, begins, LINES)
    end = Edge((LINES, ends, LINES), "answer")
    return Format(
        markers=(begins, ends),
        between=(Edge(begin, "thinking"), end),
        reasoning=(end,),
        regions={
            # The prompt may have opened the reasoning, or the model may yet.
            "thinking": Text(
                Shows.REASONING,
                (Edge(begin, "thinking", slip=Slip.TWICE), Edge(OTHER_TEXT, "reasoning")),
            ),
        },
        start=start,
        start_thinking="thinking",
        thoughts=(Thoughts(begins, ends),),
    )


QWEN3: Final = think(start="answer")
"""Qwen3's hybrid models write the marker themselves. Prompts of Qwen3.5 and later open the reasoning."""
DEEPSEEK_R1: Final = think(start="thinking")
"""Models that always think: DeepSeek R1, Qwen3-Thinking-2507."""
DEEPSEEK_V3: Final = think(start="answer")
"""DeepSeek V3.1 and later, which think if the client asks for it."""
KIMI_K2: Final = think(start="thinking")
"""Kimi K2 Thinking and later, which think unless the client asks them not to."""
GLM45: Final = think(start="answer")
"""GLM 4.5 and 4.6, which write the marker themselves."""
GLM47: Final = think(start="thinking")
"""GLM 4.7 and later, whose prompts open the reasoning."""
