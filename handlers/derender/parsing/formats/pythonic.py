"""Calls as a list of Python calls: `[get_weather(city="Paris"), get_time()]`. The whole answer is one list.

Models also put it on lines of its own behind text, or in a code block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from derender.parsing.arguments.notation import CALL_ARGUMENTS, PYTHON
from derender.parsing.engine.format import NO_CALL, Act, Arguments, Edge, Format, Markup, Slip, twice
from derender.parsing.patterns import END, SPACE, ahead, capture, optional

from .objects import FENCE

if TYPE_CHECKING:
    from derender.parsing.engine.format import Region

__all__ = ["LLAMA4", "TOOLS"]

_CALL: Final = (capture("name", r"A-Za-z0-9_.\-"), SPACE, "(")
_LIST: Final = ("[", SPACE, ahead(*_CALL))
_LINE: Final = optional("\n")
"""With it, an edge of `first` begins where that of a call behind text does, and so comes before it."""


def _calls(prefix: str, *ends: Edge, alone: bool = False) -> dict[str, Region]:
    """Return the regions of a list of calls.

    Args:
        prefix: What their names begin with.
        ends: Edges where the list ends.
        alone: Whether nothing else may follow it.
    """
    after = f"{prefix}after a call"
    return {
        f"{prefix}calls": Markup((Edge((SPACE, *_CALL), f"{prefix}arguments", Act.OPEN), *ends, NO_CALL)),
        after: Markup((Edge((SPACE, ","), f"{prefix}calls"), *ends, NO_CALL), ends=True),
        f"{prefix}arguments": Arguments(
            PYTHON, start=CALL_ARGUMENTS, then=after, otherwise="content", listed=True, alone=alone
        ),
    }


_END: Final = Edge((SPACE, "]"), "called", Act.CLOSE)
TOOLS: Final = Format(
    first=(
        *twice(Edge((SPACE, _LINE, *_LIST), "calls", Act.BEGIN), "["),
        Edge((SPACE, _LINE, *FENCE, *_LIST), "alone calls", Act.BEGIN, slip=Slip.BEHIND_TEXT),
    ),
    called=(Edge((SPACE, "]"), "called", slip=Slip.TWICE),),
    content=(Edge((SPACE, "\n", optional(*FENCE), *_LIST), "alone calls", Act.BEGIN, slip=Slip.BEHIND_TEXT),),
    regions={
        **_calls("", _END),
        **_calls("alone ", Edge((SPACE, "]"), "after the list"), alone=True),
        "after the list": Markup(
            (
                Edge((SPACE, optional("```", SPACE), END), "called", Act.CLOSE),
                NO_CALL,
            ),
            ends=True,
        ),
    },
    offered_only=True,
)
_START: Final = "<|python_start|>"
LLAMA4: Final = Format(
    markers=(_START, "<|python_end|>"),
    first=TOOLS.first,
    called=TOOLS.called,
    content=(
        *twice(Edge((SPACE, _START, SPACE, *_LIST), "calls", Act.BEGIN), _START),
        *TOOLS.content,
        Edge((SPACE, "<|python_end|>"), "answer"),
        Edge((_START,), "answer", slip=Slip.STRAY),
    ),
    regions={
        **TOOLS.regions,
        **_calls("", _END, Edge((ahead(SPACE, "<|python_end|>"),), "called", Act.CLOSE, slip=Slip.NO_END)),
    },
    offered_only=True,
)
"""Llama 4 may put the list between `<|python_start|>` and `<|python_end|>`."""
