"""Events: what parsing an output finds, in order."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["CallArguments", "CallStart", "Content", "Event", "Reasoning"]


class Content(Struct, frozen=True):
    """Text of the answer."""

    text: str


class Reasoning(Struct, frozen=True):
    """Text of the reasoning."""

    text: str


class CallStart(Struct, frozen=True):
    """The start of a tool call."""

    index: int
    """The call's number in the answer, from 0."""
    name: str
    """The tool's name."""
    written_id: str
    """The id that the model wrote; empty if it wrote none."""


class CallArguments(Struct, frozen=True):
    """Text of a call's arguments. All of a call's texts joined are one JSON object."""

    index: int
    """The call's number."""
    text: str


Event = Content | Reasoning | CallStart | CallArguments
