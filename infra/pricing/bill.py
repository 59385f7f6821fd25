"""The parts of a price."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from .measured import ANSWER, ANSWER_TOKENS, CHUNK_BYTES, GZIPPED, LOG_BYTES, REQUEST, durations
from .prices import PRICES, SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .plan import Plan
    from .prices import Price

__all__ = ["MONITORING", "Part", "billed", "dollars", "generation", "invocations", "month"]

_MB_OF_GB: Final = 1024
"""Lambda's GB are binary."""
_HTTP_INCREMENT: Final = 512 * 1024
_REST_INCREMENT: Final = 10 * 1024 * 1024
"""Bytes that are one request, of a streamed answer; others are no larger."""

# Of a part of a batch: infra/batch.yaml and `derender.batch`.
_TRANSITIONS: Final = 4
"""The execution's start, its task, the choice, the end."""
_WRITES: Final = 3
"""Results, their record, and a list, which has a write's price, for a record that is there already."""
_READS: Final = 3
"""The range, the rest of its last line, and in the end the record."""
_WAIT: Final = 5 * 30
"""Milliseconds for those that the part waits for. Assumed, not measured."""


class Part(NamedTuple):
    """A part of a price."""

    name: str
    quantity: float
    """In the price's units."""
    price: Price

    @property
    def dollars(self) -> float:
        return self.quantity * self.price.each


MONITORING: Final = (
    Part("metrics", 35, PRICES["metrics"]),
    Part("alarms", 25, PRICES["alarms"]),
    Part("dashboard", 1, PRICES["dashboard"]),
)
"""What a month of a stack's metrics costs, about: the functions' own and those of the API's routes, and those
that alarms watch."""


def dollars(parts: Iterable[Part]) -> float:
    """What parts cost together."""
    return sum(part.dollars for part in parts)


def generation(plan: Plan) -> tuple[Part, ...]:
    """What one generation costs."""
    count, gigabytes = invocations(plan), plan.memory / _MB_OF_GB
    kind = "provisioned" if plan.start == "provisioned" else "Lambda"
    compute = PRICES[f"{kind} compute, {plan.architecture}"]
    parts = [
        Part("Lambda requests", count, PRICES["Lambda requests"]),
        Part("Lambda compute", count * gigabytes * billed(plan) / 1000, compute),
    ]
    match plan.start:
        case "on-demand":
            init = gigabytes * durations(plan.memory).start / 1000
            parts.append(Part("cold starts", count * plan.cold * init, compute))
        case "SnapStart":
            parts.append(Part("restores", count * plan.cold * gigabytes, PRICES["SnapStart restore"]))
    parts += _door(plan, count)
    logged = LOG_BYTES[plan.mode] if plan.log_bytes is None else plan.log_bytes
    parts.append(Part("logs", count * logged / 1e9, PRICES["logs"]))
    parts.append(Part("traces", count * plan.traced, PRICES["traces"]))
    if plan.internet and plan.mode != "batch":
        sent = count * _answer_bytes(plan) / 1e9
        parts.append(Part("data transfer", sent, PRICES["data transfer to the internet"]))
    return tuple(parts)


def month(plan: Plan) -> tuple[Part, ...]:
    """What a month costs besides, however much is derendered, but for `MONITORING`."""
    gigabytes = plan.memory / _MB_OF_GB
    match plan.start:
        case "SnapStart":
            return (Part("snapshot", gigabytes * SECONDS, PRICES["SnapStart cache"]),)
        case "provisioned":
            price = PRICES[f"provisioned concurrency, {plan.architecture}"]
            return (Part("provisioned concurrency", plan.instances * gigabytes * SECONDS, price),)
    return ()


def invocations(plan: Plan) -> float:
    """Invocations of the function for one generation."""
    match plan.mode:
        case "chunk":
            return plan.tokens
        case "chunks":
            return math.ceil(plan.tokens / plan.chunks)
        case "batch":
            return 1 / _part_lines(plan)
    return 1


def billed(plan: Plan) -> int:
    """Milliseconds that an invocation is billed."""
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
            each = plan.tokens * (took.line_token + plan.candidates * took.line_candidate)
            return _WAIT + _part_lines(plan) * each
    grown = (plan.tokens - ANSWER_TOKENS) * took.line_token
    return took.answer + grown + plan.tokens * plan.candidates * took.each_candidate


def _door(plan: Plan, count: float) -> list[Part]:
    """What invokes the function."""
    if plan.mode == "batch":
        return [
            Part("Step Functions", count * _TRANSITIONS, PRICES["Step Functions"]),
            Part("S3 writes and lists", count * _WRITES, PRICES["S3 writes and lists"]),
            Part("S3 reads", count * _READS, PRICES["S3 reads"]),
        ]
    return [Part(plan.door, count * _increments(plan), PRICES[plan.door])]


def _increments(plan: Plan) -> int:
    """Requests that an API counts an invocation as."""
    match plan.door:
        case "HTTP API":
            return math.ceil((_request_bytes(plan) + _answer_bytes(plan)) / _HTTP_INCREMENT)
        case "REST API":
            return math.ceil(_answer_bytes(plan) / _REST_INCREMENT)
    return 1


def _request_bytes(plan: Plan) -> float:
    if plan.is_stream:
        return 0  # next to nothing
    return REQUEST.of(plan.tokens, plan.candidates) * (GZIPPED if plan.gzipped else 1)


def _answer_bytes(plan: Plan) -> float:
    """Of an invocation."""
    if plan.is_stream:
        return plan.tokens / invocations(plan) * CHUNK_BYTES
    return ANSWER.of(plan.tokens, plan.candidates) * (GZIPPED if plan.gzipped else 1)


def _part_lines(plan: Plan) -> float:
    """Lines of a batch's part."""
    # Only a batch's price waits for the import.
    from derender.batch.steps.plan import MAX_PARTS, MIN_PART_BYTES

    line = REQUEST.of(plan.tokens, plan.candidates)
    return min(max(MIN_PART_BYTES / line, plan.lines / MAX_PARTS, 1), plan.lines)
