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
    WAITING = "waiting"
    """The calls have ended in the reasoning. What follows tells whether they are quoted."""
    TEXT = "text"
    """All of it is text: it is no call, or no calls are wanted."""


class Step(StrEnum):
    """What can happen to markup."""

    SKIP = "skip"
    """A call begins that the client does not want."""
    STREAM = "stream"
    """The open call is no longer kept: its arguments have begun, and it is the first, or has become long."""
    COMPLETE = "complete"
    """The open call ends, and counts."""
    REJECT = "reject"
    """What follows the last complete call turns out to be no call."""
    WAIT = "wait"
    """The markup ends, but may be quoted in the reasoning."""
    CLOSE = "close"
    """The markup ends."""
    END = "end"
    """The output ends before the markup has ended. What is no longer buffered is rejected and closed."""


class Effect(StrEnum):
    """What the emitter does at a step."""

    NONE = ""
    EMIT = "emit the calls"
    RESTORE = "give the text back"
    """The text that is not part of an emitted call, as the model wrote it."""
    SALVAGE = "give the text back, if no call is complete"


class Transition(NamedTuple):
    """A row of the table."""

    step: Step
    before: tuple[Status, ...]
    effect: Effect
    after: Status | None


LIFECYCLE: Final = (
    Transition(Step.SKIP, (Status.BUFFERED,), Effect.NONE, Status.SKIPPED),
    Transition(Step.STREAM, (Status.BUFFERED,), Effect.EMIT, Status.STREAMED),
    Transition(Step.COMPLETE, (Status.BUFFERED,), Effect.EMIT, Status.BUFFERED),
    Transition(Step.COMPLETE, (Status.STREAMED,), Effect.NONE, Status.BUFFERED),
    Transition(Step.REJECT, (Status.BUFFERED, Status.STREAMED, Status.WAITING), Effect.RESTORE, Status.TEXT),
    Transition(Step.WAIT, (Status.BUFFERED,), Effect.NONE, Status.WAITING),
    Transition(Step.CLOSE, (Status.BUFFERED, Status.SKIPPED, Status.WAITING), Effect.EMIT, None),
    Transition(Step.CLOSE, (Status.STREAMED, Status.TEXT), Effect.NONE, None),
    Transition(Step.END, (Status.BUFFERED,), Effect.SALVAGE, None),
)
TRANSITIONS: Final = {(before, row.step): (row.effect, row.after) for row in LIFECYCLE for before in row.before}
"""The same, by status and step."""
