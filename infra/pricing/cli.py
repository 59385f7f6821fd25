"""`derender cost`: what it costs, for figures of one's own."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from .container import Container
from .plan import DOORS, PLANS, STARTS
from .prices import ARCHITECTURES, SECONDS
from .tables import compared, documented, of_plan, show

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["add_arguments", "run"]

_MOST: Final = 1e12
"""Of any figure."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    add = parser.add_argument
    add("--mode", choices=[*PLANS], default="complete", help="how it is derendered (%(default)s)")
    often = parser.add_mutually_exclusive_group()
    often.add_argument(
        "--requests-per-month",
        type=_number(0),
        metavar="N",
        help="complete answers, streams or lines a month (1,000,000)",
    )
    often.add_argument("--rate", type=_number(0), metavar="N", help="the same, a second")
    add("--tokens", type=_whole(1), metavar="N", help="of each generation (595; of streams 2,048)")
    add("--candidates", type=_whole(0), metavar="N", help="for each token (0)")
    add("--chunks", type=_whole(1), metavar="N", help="in a request of mode chunks (16)")
    add("--tokens-per-second", type=_number(0.001), metavar="N", help="of a generation that is relayed (50)")
    add("--lines", type=_whole(1), metavar="N", help="of a batch (1,000,000)")
    add(
        "--memory",
        type=_whole(128, 10_240),
        metavar="MB",
        help="of the function (1,024; relay 512, batch 1,769)",
    )
    add("--architecture", choices=ARCHITECTURES, help="its processor (x86_64)")
    add("--door", choices=[door for door in DOORS if door != "Step Functions"], help="what is in front of it")
    add("--duration-ms", type=_number(0), metavar="MS", help="of an invocation, in place of what was measured")
    add("--start", choices=STARTS, help="how instances start (on-demand)")
    add("--instances", type=_whole(0), metavar="N", help="that are provisioned (1, with --start provisioned)")
    add("--cold", type=_number(0, 100), metavar="PERCENT", help="invocations that are cold starts (1)")
    add("--log-bytes", type=_number(0), metavar="N", help="of an invocation, in place of what was measured")
    add("--tracing", type=_number(0, 100), metavar="PERCENT", help="invocations that are traced (5)")
    add("--gzip", action="store_true", help="requests and answers are gzipped")
    add("--internet", action="store_true", help="answers leave AWS")
    add("--container-vcpu", type=_number(0.25, 16), metavar="N", default=Container().vcpu, help="(%(default)s)")
    add(
        "--container-gb",
        type=_number(0.5, 120),
        metavar="N",
        default=Container().gigabytes,
        help="(%(default)s)",
    )
    add("--container-processes", type=_whole(1), metavar="N", default=1, help="of the peer in it (%(default)s)")
    add("--markdown", action="store_true", help="print the tables of infra/COST.md instead")


def run(options: argparse.Namespace) -> int:
    """Run the command.

    Returns:
        0.
    """
    if options.markdown:
        sys.stdout.write("\n".join(f"### {table.title}\n\n{table.markdown}\n" for table in documented()))
        return 0
    given: dict[str, Any] = {
        "tokens": options.tokens,
        "candidates": options.candidates,
        "chunks": options.chunks,
        "tokens_per_second": options.tokens_per_second,
        "lines": options.lines,
        "memory": options.memory,
        "architecture": options.architecture,
        "door": options.door if options.mode != "batch" else None,
        "duration": options.duration_ms,
        "start": options.start,
        "instances": 1 if options.instances is None and options.start == "provisioned" else options.instances,
        "cold": None if options.cold is None else options.cold / 100,
        "log_bytes": options.log_bytes,
        "traced": None if options.tracing is None else options.tracing / 100,
        "gzipped": options.gzip,
        "internet": options.internet,
    }
    plan = replace(PLANS[options.mode], **{name: value for name, value in given.items() if value is not None})
    container = Container(
        options.container_vcpu, options.container_gb, plan.architecture, options.container_processes
    )
    monthly = 1_000_000 if options.requests_per_month is None else options.requests_per_month
    rate = monthly / SECONDS if options.rate is None else options.rate
    show(of_plan(plan, rate))
    sys.stdout.write(f"\n{compared(plan, container, rate)}\n")
    return 0


def _number(least: float, most: float = _MOST) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = float(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text}: it may be from {least:g} to {most:g}")
        return value

    return number


def _whole(least: int, most: int = int(_MOST)) -> Callable[[str], int]:
    def whole(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text}: it may be from {least:,} to {most:,}")
        return value

    return whole
