"""Durations and sizes of requests, as `tests/benchmarks/cost.py` measures them.

It measures under Lambda's runtime interface emulator, on x86-64.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "ANSWER",
    "ANSWER_TOKENS",
    "CHUNKS",
    "DURATIONS",
    "GZIPPED",
    "LOG_BYTES",
    "MANY_CANDIDATES",
    "REQUEST",
    "Durations",
    "Size",
    "durations",
]

ANSWER_TOKENS: Final = 595
"""Tokens of a measured answer."""
MANY_CANDIDATES: Final = 20
"""Logprob candidates per token of a measured large answer."""
CHUNKS: Final = 16
"""Chunks, of one token each, in a measured request with several."""


class Durations(NamedTuple):
    """Milliseconds before rounding, for one size of memory."""

    answer: float
    """A complete answer without logprobs."""
    candidates: float
    """A complete answer with many candidates, not gzipped."""
    chunk: float
    """A request with one chunk of a stream."""
    chunks: float
    """A request with several chunks."""
    line: float
    """An answer in a batch, without the time that S3 takes."""
    candidates_line: float
    """An answer with many candidates in a batch."""
    start: float
    """The init phase of a cold start, for which Lambda adds CPU."""

    @property
    def each_chunk(self) -> float:
        """Milliseconds per further chunk of a request."""
        return (self.chunks - self.chunk) / (CHUNKS - 1)

    @property
    def each_token(self) -> float:
        """Milliseconds per token of an answer."""
        return self.line / ANSWER_TOKENS

    @property
    def each_candidate(self) -> float:
        """Milliseconds per candidate of a complete answer."""
        return (self.candidates - self.answer) / (ANSWER_TOKENS * MANY_CANDIDATES)

    @property
    def each_line_candidate(self) -> float:
        """Milliseconds per candidate in a batch."""
        return (self.candidates_line - self.line) / (ANSWER_TOKENS * MANY_CANDIDATES)


DURATIONS: Final = {
    512: Durations(2.7, 105, 2.5, 3.6, 1.5, 44, 450),
    1024: Durations(2.8, 57, 2.7, 3.5, 0.75, 23, 450),
    1769: Durations(3.0, 40, 2.5, 3.5, 0.36, 14, 450),
}
"""Memory in MB → durations. 1,769 MB is a whole CPU. More does not help, because a request has one thread."""


def durations(memory: int) -> Durations:
    """Return the durations of the largest measured size that is no larger than a memory in MB."""
    return DURATIONS[max(size for size in DURATIONS if size <= memory)]


class Size(NamedTuple):
    """Bytes of a body."""

    fixed: float
    token: float
    """Per token."""
    candidate: float
    """Per candidate of each token."""

    def of(self, tokens: int, candidates: int) -> float:
        """Return the bytes of a body with these tokens, and candidates per token."""
        return self.fixed + tokens * (self.token + candidates * self.candidate)


REQUEST: Final = Size(120, 6.27, 61.9)
"""Request for a complete answer, or line of a batch."""
ANSWER: Final = Size(650, 6.48, 88.0)
GZIPPED: Final = 0.31
"""Gzipped size of both, relative to their size. Gzip takes no time: the runtime saves as much."""
LOG_BYTES: Final = {"complete": 1940, "chunk": 1780, "chunks": 1780, "relay": 1540, "batch": 1540}
"""Mode → bytes that an invocation logs: platform, request and metrics, and 400 bytes of access log.

Relay and batch are assumed to log as much as an answer.
"""
