"""The command `derender cost`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from .plan import DOORS, PLANS, STARTS, Plan
from .prices import ARCHITECTURES
from .tables import compare, document, price

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["add_arguments", "run"]

_MOST: Final = 1e9
"""Bound of every number."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command. Those of a plan have the names of its fields."""
    doors = [door for door in DOORS if door != "Step Functions"]

    def add(flag: str, help_: str, **options: Any) -> None:
        parser.add_argument(flag, default=argparse.SUPPRESS, help=help_, **options)

    parser.add_argument(
        "--mode", choices=[*PLANS], default="complete", help="how to derender (default: %(default)s)"
    )
    parser.add_argument(
        "--rate", type=_number(0), default=1, metavar="N", help="generations per second (default: %(default)s)"
    )
    add("--tokens", "tokens per generation (default: 595; streams: 2048)", type=_integer(1), metavar="N")
    add("--candidates", "logprob candidates per token (default: 0)", type=_integer(0), metavar="N")
    add("--chunks", "chunks per request in mode chunks (default: 16)", type=_integer(1), metavar="N")
    add("--tokens-per-second", "speed of a relayed generation (default: 50)", type=_number(0.001), metavar="N")
    add(
        "--memory",
        "memory of the function (default: 1024; relay: 512; batch: 1769)",
        type=_integer(512, 10_240),
        metavar="MB",
    )
    add("--architecture", "processor of the function (default: x86_64)", choices=ARCHITECTURES)
    add("--door", "front door of the function (default: HTTP API; relay: function URL)", choices=doors)
    add("--start", "how instances start; one is provisioned (default: on-demand)", choices=STARTS)
    add("--duration", "duration of an invocation, instead of the measured one", type=_number(0), metavar="MS")
    add("--gzipped", "requests and answers are gzipped", action="store_true")
    parser.add_argument("--markdown", action="store_true", help="print the tables of docs/cost.md instead")


def run(options: argparse.Namespace) -> int:
    """Run the command.

    Returns:
        0.
    """
    if options.markdown:
        sys.stdout.write("\n".join(f"### {table.title}\n\n{table.markdown}\n" for table in document()))
        return 0
    given = {name: value for name, value in vars(options).items() if name in Plan.__dataclass_fields__}
    if options.mode == "batch":
        given.pop("door", None)
    plan = replace(PLANS[options.mode], **given)
    sys.stdout.write(f"{price(plan, options.rate).text}\n\n{compare(plan, options.rate)}\n")
    return 0


def _number(least: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = float(text)
        if not least <= value <= _MOST:
            raise argparse.ArgumentTypeError(f"must be from {least:g} to {_MOST:g}, got {text}")
        return value

    return number


def _integer(least: int, most: int = int(_MOST)) -> Callable[[str], int]:
    def integer(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be from {least:,} to {most:,}, got {text}")
        return value

    return integer
