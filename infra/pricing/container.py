"""The alternative: one container that always runs and serves the peer, `vllm launch render`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from .bill import Part, dollars, generation, month
from .measured import ANSWER_TOKENS, MANY_CANDIDATES
from .prices import HOURS, PRICES, SECONDS

if TYPE_CHECKING:
    from .plan import Plan
    from .prices import Architecture

__all__ = ["Container", "break_even", "busy", "capacity", "container_month"]

# vLLM 0.33, as measured: README.md, "Speed and memory".
_ANSWER: Final = 0.015
"""Seconds for a complete answer."""
_CANDIDATES: Final = 0.304
"""Seconds for one with many candidates."""
_STREAM_TOKENS: Final = 2048
_STREAM: Final = 74
"""Seconds for a stream of so many tokens, a request for each. Each of them reads all before it again."""


class Container(NamedTuple):
    """A Fargate task. Nothing else is counted that it may need: a load balancer, a second one, logs."""

    vcpu: float = 2
    gigabytes: float = 4
    architecture: Architecture = "x86_64"
    processes: int = 1
    """Of the peer, each of 1.7 GB, that serve one request at a time each."""


def container_month(container: Container) -> tuple[Part, ...]:
    """What it costs a month."""
    cpu, memory = (PRICES[f"Fargate {what}, {container.architecture}"] for what in ("CPU", "memory"))
    return (
        Part("Fargate CPU", container.vcpu * HOURS, cpu),
        Part("Fargate memory", container.gigabytes * HOURS, memory),
    )


def busy(plan: Plan) -> float:
    """Seconds that one process is busy with one generation. The peer streams chunk by chunk only."""
    if plan.is_stream:
        return _STREAM * (plan.tokens / _STREAM_TOKENS) ** 2
    each_candidate = (_CANDIDATES - _ANSWER) / MANY_CANDIDATES
    return plan.tokens / ANSWER_TOKENS * (_ANSWER + plan.candidates * each_candidate)


def capacity(plan: Plan, container: Container) -> float:
    """Generations a second that a container can do at most."""
    return container.processes / busy(plan)


def break_even(plan: Plan, container: Container) -> float | None:
    """Generations a second from which on one container is cheaper; None where that is more than it can do.

    Then several are not cheaper either: each does its capacity for more than the functions take for it.
    """
    left = dollars(container_month(container)) - dollars(month(plan))
    rate = max(left, 0) / (dollars(generation(plan)) * SECONDS)
    return rate if rate <= capacity(plan, container) else None
