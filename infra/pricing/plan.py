"""What is to be derendered, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from .measured import ANSWER_TOKENS, CHUNKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .prices import Architecture

__all__ = ["DOORS", "PLANS", "STARTS", "Door", "Mode", "Plan", "Start"]

Mode = Literal["complete", "chunk", "chunks", "relay", "batch"]
"""A complete answer; a stream by a request for each chunk, by several chunks a request, relayed; a batch's
line."""
Door = Literal["HTTP API", "REST API", "function URL", "Step Functions"]
DOORS: Final[tuple[Door, ...]] = get_args(Door)
Start = Literal["on-demand", "SnapStart", "provisioned"]
STARTS: Final[tuple[Start, ...]] = get_args(Start)


@dataclass(frozen=True)
class Plan:
    """What is to be derendered, and how."""

    mode: Mode
    tokens: int
    """Of each generation."""
    memory: int
    """Of the function, in MB."""
    door: Door
    """What invokes it."""
    candidates: int = 0
    """For each token."""
    architecture: Architecture = "x86_64"
    chunks: int = CHUNKS
    """In a request that has several, of a token each."""
    tokens_per_second: float = 50
    """At which they are generated: a relay is billed while it waits."""
    lines: int = 1_000_000
    """Of a batch."""
    duration: float | None = None
    """Milliseconds of an invocation, in place of what was measured."""
    start: Start = "on-demand"
    instances: int = 0
    """That are provisioned."""
    cold: float = 0.01
    """Part of the invocations that are cold starts."""
    log_bytes: float | None = None
    """Of an invocation, in place of what was measured."""
    traced: float = 0.05
    """Part of the invocations that are traced: X-Ray's own rule, but for the first in each second."""
    gzipped: bool = False
    """Whether requests and answers are."""
    internet: bool = False
    """Whether answers leave AWS."""

    @property
    def is_stream(self) -> bool:
        return self.mode in ("chunk", "chunks", "relay")


PLANS: Final[Mapping[Mode, Plan]] = {
    "complete": Plan("complete", ANSWER_TOKENS, 1024, "HTTP API"),
    "chunk": Plan("chunk", 2048, 1024, "HTTP API"),
    "chunks": Plan("chunks", 2048, 1024, "HTTP API"),
    "relay": Plan("relay", 2048, 512, "function URL"),
    "batch": Plan("batch", ANSWER_TOKENS, 1769, "Step Functions"),
}
"""Mode → what `template.yaml` makes of it by default."""
