"""The parts of a price."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from .measured import ANSWER, ANSWER_TOKENS, GZIPPED, LOG_BYTES, REQUEST, durations
from .prices import PRICES, SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .plan import Plan
    from .prices import Price

__all__ = [
    "COLD",
    "MONITORING",
    "TRACED",
    "Part",
    "billed_ms",
    "count_invocations",
    "dollars",
    "price_generation",
    "price_month",
]

COLD: Final = 0.01
"""Share of invocations that are cold starts. AWS says that it is less."""
TRACED: Final = 0.05
"""Share of invocations that X-Ray traces by default, except the first of each second."""
_MB_PER_GB: Final = 1024
"""Lambda's GB are binary."""
_HTTP_INCREMENT: Final = 512 * 1024
"""Bytes that an HTTP API counts as one request."""

# A part of a batch. infra/batch.yaml and derender.batch define what it does.
_BATCH_LINES: Final = 1_000_000
_TRANSITIONS: Final = 4
"""Start of the execution, task, choice, end."""
_WRITES: Final = 3
"""Results, their record, and a list, which has the price of a write, for an earlier record."""
_READS: Final = 3
"""The range, the rest of its last line, and at the end the record."""
_WAIT: Final = 5 * 30
"""Milliseconds for the five of these requests that the part waits for. Assumed, not measured."""


class Part(NamedTuple):
    """A part of a price."""

    name: str
    quantity: float
    """Units of the price."""
    price: Price

    @property
    def dollars(self) -> float:
        return self.quantity * self.price.each


MONITORING: Final = (
    Part("metrics", 35, PRICES["metrics"]),
    Part("alarms", 25, PRICES["alarms"]),
    Part("dashboard", 1, PRICES["dashboard"]),
)
"""Approximate monitoring of a stack per month: own metrics, metrics in alarms, and the dashboard."""


def dollars(parts: Iterable[Part]) -> float:
    """Return the sum of parts."""
    return sum(part.dollars for part in parts)


def price_generation(plan: Plan) -> tuple[Part, ...]:
    """Return the price of one generation."""
    count, gigabytes = count_invocations(plan), plan.memory / _MB_PER_GB
    kind = "provisioned" if plan.start == "provisioned" else "Lambda"
    compute = PRICES[f"{kind} compute, {plan.architecture}"]
    parts = [
        Part("Lambda requests", count, PRICES["Lambda requests"]),
        Part("Lambda compute", count * gigabytes * billed_ms(plan) / 1000, compute),
    ]
    match plan.start:
        case "on-demand":
            init = gigabytes * durations(plan.memory).start / 1000
            parts.append(Part("cold starts", count * COLD * init, compute))
        case "SnapStart":
            parts.append(Part("restores", count * COLD * gigabytes, PRICES["SnapStart restore"]))
    if plan.mode == "batch":
        parts += [
            Part("Step Functions", count * _TRANSITIONS, PRICES["Step Functions"]),
            Part("S3 writes and lists", count * _WRITES, PRICES["S3 writes and lists"]),
            Part("S3 reads", count * _READS, PRICES["S3 reads"]),
        ]
    else:
        parts.append(Part(plan.door, count * _requests(plan), PRICES[plan.door]))
    parts.append(Part("logs", count * LOG_BYTES[plan.mode] / 1e9, PRICES["logs"]))
    parts.append(Part("traces", count * TRACED, PRICES["traces"]))
    return tuple(parts)


def price_month(plan: Plan) -> tuple[Part, ...]:
    """Return the monthly price without any generation and without `MONITORING`."""
    gigabyte_seconds = plan.memory / _MB_PER_GB * SECONDS
    match plan.start:
        case "SnapStart":
            return (Part("snapshot", gigabyte_seconds, PRICES["SnapStart cache"]),)
        case "provisioned":
            price = PRICES[f"provisioned concurrency, {plan.architecture}"]
            return (Part("provisioned concurrency", gigabyte_seconds, price),)
    return ()


def count_invocations(plan: Plan) -> float:
    """Return the invocations of the function per generation."""
    match plan.mode:
        case "chunk":
            return plan.tokens
        case "chunks":
            return math.ceil(plan.tokens / plan.chunks)
        case "batch":
            return 1 / _part_lines(plan)
    return 1


def billed_ms(plan: Plan) -> int:
    """Return the milliseconds that Lambda bills for an invocation."""
    return math.ceil(_duration(plan) if plan.duration is None else plan.duration)


def _duration(plan: Plan) -> float:
    took = durations(plan.memory)
    match plan.mode:
        case "chunk":
            return took.chunk
        case "chunks":
            return took.chunk + (min(plan.chunks, plan.tokens) - 1) * took.each_chunk
        case "relay":
            return took.chunk + 1000 * plan.tokens / plan.tokens_per_second
        case "batch":
            each = plan.tokens * (took.each_token + plan.candidates * took.each_line_candidate)
            return _WAIT + _part_lines(plan) * each
    more_tokens = (plan.tokens - ANSWER_TOKENS) * took.each_token
    return took.answer + more_tokens + plan.tokens * plan.candidates * took.each_candidate


def _requests(plan: Plan) -> int:
    """Return the requests that an API counts for one invocation. Only bodies of complete answers are large."""
    if plan.door != "HTTP API" or plan.is_stream:
        return 1
    size = REQUEST.of(plan.tokens, plan.candidates) + ANSWER.of(plan.tokens, plan.candidates)
    return math.ceil(size * (GZIPPED if plan.gzipped else 1) / _HTTP_INCREMENT)


def _part_lines(plan: Plan) -> float:
    """Return the lines of a batch's part."""
    # The import takes time that only this price needs.
    from derender.batch.steps.plan import MAX_PARTS, MIN_PART_BYTES

    line = REQUEST.of(plan.tokens, plan.candidates)
    return max(MIN_PART_BYTES / line, _BATCH_LINES / MAX_PARTS)
