"""The table that benchmarks print, and how they measure in turns."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["TOKENS", "Row", "in_turns", "milliseconds", "show"]

TOKENS: Final = 595
"""Length of the generation that most rows measure."""


class Row(NamedTuple):
    """A line of the table."""

    measure: str
    ours: str
    against: str
    theirs: str
    ratio: str
    goal: str


def in_turns(rounds: int, *functions: Callable[[], object]) -> list[float]:
    """Return the median time of each function in seconds. Functions run in turns after a first call of each."""
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


def milliseconds(seconds: float) -> str:
    """Format a time."""
    return f"{seconds * 1e3:.2f} ms"


def show(rows: Iterable[Row]) -> None:
    """Print the table."""
    table = Table(header_style="bold")
    for column in ("measure", "derender", "against", "", "ratio", "goal"):
        table.add_column(column, justify="left" if column in ("measure", "against") else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=140).print(table)
