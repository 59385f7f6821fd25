"""What requests take: durations, sizes of bodies, log lines. As `tests/benchmarks/cost.py` measures it.

On a machine that is not Lambda's, under its runtime interface emulator; arm64 was not measured.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "ANSWER",
    "ANSWER_TOKENS",
    "CHUNKS",
    "CHUNK_BYTES",
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
"""Of the answers that were measured."""
MANY_CANDIDATES: Final = 20
"""For each token of the large ones."""
CHUNKS: Final = 16
"""In a request that has several; of one token each."""


class Durations(NamedTuple):
    """What is billed at one size of memory, in milliseconds, not rounded."""

    answer: float
    """A complete answer without log probabilities."""
    candidates: float
    """One with many candidates for each token, by id, not gzipped."""
    chunk: float
    """A chunk of a stream."""
    chunks: float
    """Several in a request."""
    line: float
    """A line of a batch with such an answer, without what S3 takes."""
    candidates_line: float
    """One with such candidates."""
    start: float
    """A cold start's init phase, in which Lambda gives more than the memory's share of a CPU."""

    @property
    def each_chunk(self) -> float:
        """One chunk more of a request."""
        return (self.chunks - self.chunk) / (CHUNKS - 1)

    @property
    def each_candidate(self) -> float:
        """One candidate more, of one token."""
        return (self.candidates - self.answer) / (ANSWER_TOKENS * MANY_CANDIDATES)

    @property
    def line_token(self) -> float:
        """One token more of a line, and of a complete answer."""
        return self.line / ANSWER_TOKENS

    @property
    def line_candidate(self) -> float:
        """One candidate more, of one token."""
        return (self.candidates_line - self.line) / (ANSWER_TOKENS * MANY_CANDIDATES)


DURATIONS: Final = {
    512: Durations(2.7, 105, 2.5, 3.6, 1.5, 44, 450),
    1024: Durations(2.8, 57, 2.7, 3.5, 0.75, 23, 450),
    1769: Durations(3.0, 40, 2.5, 3.5, 0.36, 14, 450),
}
"""Memory in MB → durations."""


def durations(memory: int) -> Durations:
    """What a size of memory takes.

    Between sizes that were measured it is in proportion. Below them the share of a CPU decides. Above them it
    is the same, since a request is one thread.

    Args:
        memory: In MB.
    """
    sizes = sorted(DURATIONS)
    if memory <= sizes[0]:
        least = DURATIONS[sizes[0]]
        return Durations(*(each * sizes[0] / memory for each in least))._replace(start=least.start)
    if memory >= sizes[-1]:
        return DURATIONS[sizes[-1]]
    below = max(size for size in sizes if size <= memory)
    above = min(size for size in sizes if size > memory)
    part = (memory - below) / (above - below)
    pairs = zip(DURATIONS[below], DURATIONS[above], strict=True)
    return Durations(*(one + part * (other - one) for one, other in pairs))


class Size(NamedTuple):
    """Of a body in bytes: what is always there, and what grows."""

    fixed: float
    token: float
    """For each token."""
    candidate: float
    """For each candidate of each token."""

    def of(self, tokens: int, candidates: int) -> float:
        """All of it."""
        return self.fixed + tokens * (self.token + candidates * self.candidate)


REQUEST: Final = Size(120, 6.27, 61.9)
"""For a complete answer; also a line of a batch."""
ANSWER: Final = Size(650, 6.48, 88.0)
GZIPPED: Final = 0.31
"""What is left of both where they are gzipped. It takes no longer: the runtime has less to carry."""
CHUNK_BYTES: Final = 440
"""Of a streamed chunk."""
LOG_BYTES: Final = {"complete": 1940, "chunk": 1780, "chunks": 1780, "relay": 1540, "batch": 1540}
"""Mode → what an invocation logs: the platform's lines, those of the request and of metrics, and 400 bytes that
the API does. A relay's and a batch's lines are taken for those of an answer."""
