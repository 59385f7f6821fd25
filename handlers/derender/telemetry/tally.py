"""The tally: counts of what was derendered, which add up over chunks, choices, lines and pieces."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import astuple

__all__ = ["NOTHING", "Outcome", "Tally"]

Outcome = Literal["tool_calls", "text", "unanswered", "cut", "markup"]
"""What a parser made of a choice.

A finished choice counts once: as `tool_calls`, as `text`, as `unanswered` if it has neither although it ended
by itself, or as `cut`. A text or chunk that shows a marker of the parser also counts as `markup`: the model
wrote something that the parser did not understand.
"""


class Tally(Struct, frozen=True, omit_defaults=True):
    """Counts of one or more requests. `+` adds tallies.

    Attributes:
        requests: Requests, or lines of a batch.
        failed: Kind of error → requests that failed with it.
        prompt_tokens: Tokens of prompts. If a stream takes several requests, the first one counts them.
        completion_tokens: Generated tokens.
        choices: Finished choices.
        candidates: Logprob candidates that came with the generated tokens.
        outcomes: What a parser made of choices, and how often.
        state_bytes: Length of the state of a stream.
    """

    requests: int = 0
    failed: dict[str, int] = {}
    prompt_tokens: int = 0
    completion_tokens: int = 0
    choices: int = 0
    candidates: int = 0
    outcomes: dict[Outcome, int] = {}
    state_bytes: int = 0

    @property
    def completed(self) -> int:
        """Requests that did not fail."""
        return self.requests - sum(self.failed.values())

    def __add__(self, other: Tally) -> Tally:
        """Return the tally of both."""
        return Tally(*map(_add, astuple(self), astuple(other)))


NOTHING: Final = Tally()


def _add(left: Any, right: Any) -> Any:
    if not left or not right:
        return left or right
    if isinstance(left, int):
        return left + right
    return {name: left.get(name, 0) + right.get(name, 0) for name in sorted(left | right)}
