"""The alternative: one Fargate task that always runs vLLM's `vllm launch render`.

It is assumed to serve one request at a time without pauses. Load balancer, spare task and logs do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .bill import dollars, price_generation, price_month
from .measured import ANSWER_TOKENS, MANY_CANDIDATES
from .prices import HOURS, PRICES, SECONDS

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["CONTAINER", "CONTAINER_MONTH", "break_even", "busy"]

CONTAINER: Final = "2 vCPU, 4 GB"
CONTAINER_MONTH: Final = HOURS * (2 * PRICES["Fargate CPU"].each + 4 * PRICES["Fargate memory"].each)
"""Dollars per month."""

# vLLM 0.33 as measured. docs/benchmarks.md has the measurements.
_ANSWER: Final = 0.015
"""Seconds for a complete answer."""
_CANDIDATES: Final = 0.304
"""Seconds for a complete answer with many candidates."""
_STREAM_TOKENS: Final = 2048
_STREAM: Final = 74
"""Seconds for a stream of so many tokens, one request each. Each request reads all earlier tokens again."""


def busy(plan: Plan) -> float:
    """Return the seconds for one generation. vLLM streams with one request per chunk only."""
    if plan.is_stream:
        return _STREAM * (plan.tokens / _STREAM_TOKENS) ** 2
    each_candidate = (_CANDIDATES - _ANSWER) / MANY_CANDIDATES
    return plan.tokens / ANSWER_TOKENS * (_ANSWER + plan.candidates * each_candidate)


def break_even(plan: Plan) -> float | None:
    """Return the generations per second above which a container is cheaper, or None if it cannot do as many.

    Several containers are then not cheaper either: each costs more than the functions do for its capacity.
    """
    rate = max(CONTAINER_MONTH - dollars(price_month(plan)), 0) / (dollars(price_generation(plan)) * SECONDS)
    return rate if rate * busy(plan) <= 1 else None
