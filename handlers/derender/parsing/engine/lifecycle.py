"""What becomes of a stretch of calls' markup at each step, as a table.

Markup is buffered until it is known to be calls. For a step and the status before it, `LIFECYCLE` lists what
the emitter does and the status after it; None means that the markup is over. A step that is not listed
changes nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

__all__ = ["LIFECYCLE", "TRANSITIONS", "Effect", "Status", "Step", "Transition"]


class Status(StrEnum):
    """What happens to the markup, and to the open call in it."""

    BUFFERED = "buffered"
    """Both are kept."""
    STREAMED = "streamed"
    """The call is emitted as it arrives."""
    SKIPPED = "skipped"
    """The call is left out: the client wants one call only."""
    BROKEN = "broken"
    """The rest is left out: a call that was partly emitted turned out to be none."""
    TEXT = "text"
    """All of it is text: it is no call, or no calls are wanted."""


class Step(StrEnum):
    """What can happen to markup."""

    OPEN = "open"
    """A call begins: its name is known."""
    SKIP = "skip"
    """A call begins that the client does not want."""
    STREAM = "stream"
    """The open call is no longer kept: it is the first, or it has become long."""
    COMPLETE = "complete"
    """A call ends, and nothing that follows can change it."""
    REJECT = "reject"
    """The markup turns out to be no call."""
    CLOSE = "close"
    """The markup ends, and is complete."""
    LEAVE = "leave"
    """Text follows before the markup has ended."""
    END = "end"
    """The output ends before the markup has ended."""


class Effect(StrEnum):
    """What the emitter does at a step."""

    NONE = ""
    EMIT = "emit the calls"
    RESTORE = "give the text back"
    SALVAGE = "give the text back without markers, if no call was emitted"


class Transition(NamedTuple):
    """A row of the table."""

    step: Step
    before: tuple[Status, ...]
    effect: Effect
    after: Status | None


LIFECYCLE: Final = (
    Transition(Step.OPEN, (Status.BUFFERED, Status.STREAMED), Effect.NONE, Status.BUFFERED),
    Transition(Step.SKIP, (Status.BUFFERED, Status.STREAMED), Effect.NONE, Status.SKIPPED),
    Transition(Step.STREAM, (Status.BUFFERED,), Effect.EMIT, Status.STREAMED),
    Transition(Step.COMPLETE, (Status.BUFFERED, Status.STREAMED), Effect.EMIT, Status.BUFFERED),
    Transition(Step.COMPLETE, (Status.SKIPPED,), Effect.EMIT, Status.SKIPPED),
    Transition(Step.REJECT, (Status.BUFFERED,), Effect.RESTORE, Status.TEXT),
    Transition(Step.REJECT, (Status.STREAMED,), Effect.NONE, Status.BROKEN),
    Transition(Step.REJECT, (Status.SKIPPED,), Effect.EMIT, Status.SKIPPED),
    Transition(Step.CLOSE, tuple(Status), Effect.EMIT, None),
    Transition(Step.LEAVE, (Status.BUFFERED,), Effect.RESTORE, None),
    Transition(Step.LEAVE, (Status.SKIPPED,), Effect.EMIT, None),
    Transition(Step.LEAVE, (Status.STREAMED, Status.BROKEN, Status.TEXT), Effect.NONE, None),
    Transition(Step.END, (Status.BUFFERED, Status.SKIPPED), Effect.SALVAGE, None),
    Transition(Step.END, (Status.STREAMED, Status.BROKEN, Status.TEXT), Effect.NONE, None),
)
TRANSITIONS: Final = {(before, row.step): (row.effect, row.after) for row in LIFECYCLE for before in row.before}
"""The same, by status and step."""
