"""Observations: what an operator may know about a request and its answer.

Log lines have the same fields. None holds anything that a client or a model wrote, except ids that pass
`is_harmless`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from .tally import NOTHING, Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    Observe = Callable[["Observation"], None]

__all__ = ["CLIENT_LEFT", "OTHER", "AnswerFacts", "Observation"]

OTHER: Final = "other"
"""Stands for an unknown path or method: clients can write anything there."""
CLIENT_LEFT: Final = 499
"""Status of a request whose client left before the end of the answer, as in nginx. Nobody receives it."""


class AnswerFacts(Struct, frozen=True, kw_only=True):
    """What the code that makes an answer knows about it."""

    completion_id: str | None = None
    """The answer's own id, if it is harmless."""
    model: str | None = None
    """The name that the model is served under."""
    streamed: bool = False
    """Whether the answer is a stream or a part of one."""
    parsers: tuple[str, ...] = ()
    """Names of the parsers that the answer went through."""
    tally: Tally = NOTHING


class Observation(Struct, frozen=True, kw_only=True):
    """A request and its answer, made once the answer is complete."""

    endpoint: str
    """The route; `OTHER` for an unknown path."""
    method: str
    """The HTTP method; `OTHER` for one that HTTP does not define."""
    status: int
    """The HTTP status. A stream that breaks off has the status of its fault, or `CLIENT_LEFT`."""
    duration_ms: float
    """Time from the first byte of the request to the last byte of the answer."""
    request_bytes: int
    """Bytes of the request body, as received."""
    response_bytes: int
    """Bytes of the response body, as sent."""
    request_id: str
    error: str | None = None
    """The kind of error: a class of `derender.errors`, the name of an HTTP status, or `ClientLeft`."""
    answer: AnswerFacts = AnswerFacts()
