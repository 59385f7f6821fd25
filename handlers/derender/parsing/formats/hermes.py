"""Calls of Qwen2.5, Qwen3, and Hermes 2 Pro and later: JSON objects between `<tool_call>` and
`</tool_call>`."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from derender.parsing.engine.format import Act, Edge, Slip, with_neighbours
from derender.parsing.patterns import SPACE, ahead

from .objects import CALL, MARKED, alone
from .qwen3_xml import FUNCTIONS

__all__ = ["TOOLS"]

_OWN: Final = replace(
    MARKED,
    first=(Edge((SPACE, ahead(*CALL)), "alone", Act.BEGIN, slip=Slip.NO_SECTION),),
    regions={**MARKED.regions, **alone(Edge((SPACE, "</tool_call>"), "called", Act.CLOSE))},
)
TOOLS: Final = with_neighbours(_OWN, FUNCTIONS)
