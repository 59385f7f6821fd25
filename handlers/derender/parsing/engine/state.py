"""Where parsing an output is: a small value that travels between pieces, as JSON if need be."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from derender.parsing.arguments.call_objects import CallsState
from derender.parsing.arguments.notation import NotationState
from derender.parsing.arguments.values import ValueState

__all__ = ["BodyState", "Call", "OpenCalls", "ParserState"]

MOST_BEHIND: Final = 64
"""Most characters that a pattern may look back."""
MOST_SPACE: Final = 128
"""Longest white space that waits for what follows it."""
MOST_KEYS: Final = 48
"""Most parameters of a call whose names are remembered where calls are given as they come."""

Count = Annotated[int, Meta(ge=0, lt=2**31)]


class Call(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A call that is kept until it is complete."""

    name: str
    written_id: str = ""
    arguments: str = ""


class OpenCalls(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Markup of calls that has begun and has not ended."""

    status: Literal["kept", "given", "text"]
    """What becomes of it: it is kept until it is complete; it is given as it comes; it turned out to be no
    call and is text."""
    began: str = "content"
    """The region that it began in."""
    raw: str = ""
    """Its text, while it is kept, to come back as content if it is no call."""
    kept: tuple[Call, ...] = ()
    """Its calls, while they are kept."""
    name: str = ""
    """The open call's name."""
    muted: bool = False
    """Whether the open call is left out: the client wants one only."""
    broken: bool = False
    """Whether its arguments are at fault, which shows when some of them are given."""
    written: Literal["", "begun", "parameters"] = ""
    """Of the open call's arguments: whether there were any; whether they are parameters that come one by
    one."""
    keys: tuple[int, ...] = ()
    """Checksums of the parameters' names: of two of one name, the first counts."""
    key: str | None = ""
    """The open parameter's name; None where it is left out, for the name was there before."""


class BodyState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Calls that are read when they end."""

    begins: Count
    """Where their text begins in what is kept."""
    captures: dict[str, str] = {}
    """What the pattern before it captured."""


class ParserState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where parsing an output is."""

    region: str
    """The region."""
    held: str = ""
    """Text that may still become a marker, or has to wait otherwise."""
    space: Annotated[str, Meta(max_length=MOST_SPACE)] = ""
    """White space before the first text of the answer, or of the reasoning."""
    answered: bool = False
    """Whether there was text of the answer."""
    reasoned: bool = False
    """Whether there was text of the reasoning."""
    marked: bool = False
    """Whether there was a marker."""
    named: str = ""
    """The name of a call that will begin."""
    number: Count = 0
    """How many calls were given."""
    calls: OpenCalls | None = None
    value: ValueState | None = None
    """Where the open parameter's value is."""
    arguments: NotationState | None = None
    """Where the open call's arguments are."""
    objects: CallsState | None = None
    """Where calls that are JSON objects are."""
    body: BodyState | None = None
    """Where calls are that are read when they end."""
    behind: Annotated[str, Meta(max_length=MOST_BEHIND)] = ""
    """Text before that which is held, for patterns that look back."""
