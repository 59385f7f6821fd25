"""The state of parsing an output: a small value, passed from piece to piece and, as JSON, between requests.

`parse` works on a copy, so a state never changes once it is returned.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from derender.parsing.arguments.call_objects import CallObjectsState
from derender.parsing.arguments.notation import NotationState
from derender.parsing.arguments.values import ValueState

from .lifecycle import Status

__all__ = ["MAX_LOOKBEHIND", "BodyState", "Call", "OpenCall", "OpenCalls", "ParserState", "Reading"]

MAX_LOOKBEHIND: Final = 64
"""Maximum number of characters that a pattern may look back."""
MAX_LEADING_SPACE: Final = 128
"""Maximum length of white space that waits for what follows it."""

Count = Annotated[int, Meta(ge=0, lt=2**31)]


class Call(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A whole call."""

    name: str
    written_id: str = ""
    """The id that the model wrote; empty if it wrote none."""
    arguments: str = ""
    """A JSON object."""


class OpenCall(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A call that has begun and has not ended."""

    name: str
    written_id: str = ""
    arguments: list[str] = []
    """Parts of its arguments that are kept."""
    started: bool = False
    """Whether it has any arguments."""
    parameters: bool = False
    """Whether they are parameters that come one by one."""
    keys: set[int] = set()
    """Checksums of the parameters' names. Of two parameters of one name, the first counts."""
    key: str | None = ""
    """The open parameter's name; None if it is left out, because the name was there before."""


class BodyState(
    Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind", tag="body"
):
    """Text of calls that is read when it ends, or text before the first call of a section."""

    start: Count
    """Where it begins in the markup."""
    captures: dict[str, str] = {}
    """What the pattern before it captured."""


Reading = ValueState | NotationState | CallObjectsState | BodyState
"""The state of reading a region whose text has a structure: a value, arguments, call objects or a body."""


class OpenCalls(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A stretch of calls' markup that has begun and has not ended."""

    status: Status
    origin: str = "content"
    """The region it began in."""
    raw: list[str] = []
    """Its text since the last call, while it is buffered, in parts: if it is no call, it goes back to the
    origin."""
    kept: list[Call] = []
    """Its calls that have ended, and count once their list has closed."""
    unended: bool = False
    """Whether the call that was emitted last lacks its end, until its list has closed."""
    call: OpenCall | None = None
    """Its open call."""
    reading: Reading | None = None
    """The state of reading the region."""
    tokens: Count = 0
    """How many tokens begin in `raw`, if it may be given back to the reasoning."""


class ParserState(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The state of parsing an output."""

    region: str
    held: str = ""
    """Text that may still become a marker, or has to wait otherwise."""
    shown: Literal["", "content", "reasoning"] = ""
    """What the text that goes on is part of; empty before a message's text."""
    leading_space: Annotated[str, Meta(max_length=MAX_LEADING_SPACE)] = ""
    """White space that text would begin with if it went on."""
    answered: bool = False
    """Whether the answer has text."""
    reasoned: bool = False
    """Whether the reasoning has text."""
    marked: bool = False
    """Whether there was a marker."""
    next_name: str = ""
    """The name of a call that will begin."""
    emitted: Count = 0
    """How many calls were emitted."""
    called: bool = False
    """Whether one of them is complete."""
    written_ids: set[int] = set()
    """Checksums of the ids that the model wrote for them. Of two calls with one id, the first keeps it."""
    lead: Count = 0
    """How far numbers that the model wrote as their ids are ahead of their indexes."""
    calls: OpenCalls | None = None
    """The open markup of calls."""
    lookbehind: Annotated[str, Meta(max_length=MAX_LOOKBEHIND)] = ""
    """Text before `held`, for patterns that look back."""
    token_places: list[Count] = []
    """Where tokens begin that are not counted yet: in `held`, or in text that has not come."""


def copy_state(state: ParserState) -> ParserState:
    """Copy a state, so that a run can change it."""
    state = replace(state, written_ids=state.written_ids.copy())
    if (calls := state.calls) is not None:
        calls = state.calls = replace(calls, raw=calls.raw.copy(), kept=calls.kept.copy())
        if (call := calls.call) is not None:
            calls.call = replace(call, arguments=call.arguments.copy(), keys=call.keys.copy())
    return state


def compact_state(state: ParserState) -> ParserState:
    """Join the parts of a state, so that it does not depend on how the output was split."""
    if (calls := state.calls) is not None:
        calls.raw = _join(calls.raw)
        if calls.call is not None:
            calls.call.arguments = _join(calls.call.arguments)
    return state


def _join(parts: list[str]) -> list[str]:
    text = "".join(parts)
    return [text] if text else []
