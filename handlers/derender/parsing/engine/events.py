"""Events: what parsing an output finds, in order."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

__all__ = ["CallArguments", "CallEnd", "CallStart", "Content", "Event", "Reasoning", "ReasoningTokens"]

_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class Content(Struct, frozen=True):
    """Text of the answer."""

    text: str


class Reasoning(Struct, frozen=True):
    """Text of the reasoning."""

    text: str


class ReasoningTokens(Struct, frozen=True):
    """Tokens of the reasoning. The text that they begin is emitted with them, or is white space at a marker."""

    count: int


class CallStart(Struct, frozen=True):
    """The start of a tool call."""

    index: int
    """The call's number in the answer, from 0."""
    name: str
    """The tool's name."""
    written_id: str
    """The id that the model wrote; empty if it wrote none, or if an earlier call of the answer has it."""
    lead: int = 0
    """How far numbers that the model wrote as ids of the answer's earlier calls are ahead of their indexes."""

    @property
    def written_number(self) -> int | None:
        """The number that the model wrote as its id. A state that was forged may have anything."""
        return int(self.written_id) if _NUMBER.fullmatch(self.written_id) else None


class CallArguments(Struct, frozen=True):
    """Text of a call's arguments. All texts of a call that ends, joined, are one JSON object."""

    index: int
    """The call's number."""
    text: str


class CallEnd(Struct, frozen=True):
    """The end of a tool call. A call that the model broke off has none."""

    index: int
    """The call's number."""


Event = Content | Reasoning | ReasoningTokens | CallStart | CallArguments | CallEnd
