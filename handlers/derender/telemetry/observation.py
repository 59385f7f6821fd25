"""What an operator may know of a request: how it went, how much it was, and nothing of what was generated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Observe = Callable[["Observation"], None]

__all__ = ["CLIENT_LEFT", "OTHER", "Facts", "Observation"]

OTHER: Final = "other"
"""A path or a method that there is not: clients can write anything there."""
CLIENT_LEFT: Final = 499
"""Status of a request whose client went away before the answer's end. Nobody sees it; the number is nginx's."""


class Facts(TypedDict, total=False):
    """What is known of an answer where it is made. The fields are those of `Observation`."""

    status: int
    error: str
    completion_id: str | None
    model: str
    streamed: bool
    prompt_tokens: int
    completion_tokens: int
    choices: int
    candidates: int
    parsers: tuple[str, ...]
    outcomes: Mapping[str, int]
    state_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A request and its answer, once that is complete.

    No field holds anything that a client or a model wrote, but for two ids, which are of harmless form.
    """

    endpoint: str
    """The route; `OTHER` for a path that is none."""
    method: str
    """The HTTP method; `OTHER` for one that HTTP does not have."""
    status: int
    """The HTTP status. Of a stream that breaks off it is the fault's; `CLIENT_LEFT` where nobody waited."""
    seconds: float
    """From the request's first byte to the answer's last."""
    request_bytes: int
    """Bytes of the body, as they were sent."""
    response_bytes: int
    """Bytes of the answer's body, as they are sent."""
    request_id: str
    error: str | None = None
    """The kind of error: the name of a class of `derender.errors`, of an HTTP status, or `ClientLeft`."""
    completion_id: str | None = None
    """The answer's own id, where it is of harmless form."""
    model: str | None = None
    """The name that the model is served under."""
    streamed: bool = False
    """Whether the answer is a stream, or a part of one."""
    prompt_tokens: int = 0
    """Of a stream in several requests, they are those of the first."""
    completion_tokens: int = 0
    choices: int = 0
    """Choices that have ended."""
    candidates: int = 0
    """Logprob candidates that came."""
    parsers: tuple[str, ...] = ()
    """Names of the parsers that the answer went through."""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """What they made of it: `derender.facts.Outcome` → how many."""
    state_bytes: int = 0
    """Length of the stream's state."""
