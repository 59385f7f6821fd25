"""A question: what to derender, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from .measured import ANSWER_TOKENS, CHUNKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .prices import Architecture

__all__ = ["DOORS", "PLANS", "STARTS", "Door", "Mode", "Plan", "Start"]

Mode = Literal["complete", "chunk", "chunks", "relay", "batch"]
"""A complete answer; a stream with one chunk or several chunks per request, or relayed; a batch."""
Door = Literal["HTTP API", "REST API", "function URL", "Step Functions"]
DOORS: Final[tuple[Door, ...]] = get_args(Door)
Start = Literal["on-demand", "SnapStart", "provisioned"]
STARTS: Final[tuple[Start, ...]] = get_args(Start)


@dataclass(frozen=True)
class Plan:
    """Generations of one kind, and the function that derenders them."""

    mode: Mode
    tokens: int
    """Tokens per generation."""
    memory: int
    """Memory of the function in MB."""
    door: Door
    """The service that invokes the function."""
    candidates: int = 0
    """Logprob candidates per token."""
    architecture: Architecture = "x86_64"
    chunks: int = CHUNKS
    """Chunks, of one token each, per request of mode chunks."""
    tokens_per_second: float = 50
    """Speed of a relayed generation. The relay is billed while it waits."""
    duration: float | None = None
    """Milliseconds per invocation, to replace what was measured."""
    start: Start = "on-demand"
    """How instances start. One is provisioned."""
    gzipped: bool = False
    """Whether requests and answers are gzipped."""

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
"""Mode → the plan that the templates' defaults make."""
