"""How far a job is: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from derender.telemetry.tally import Tally

    Advance = Callable[[int, Tally], None]
    """Told how many bytes of the input were done, and how their lines went."""

__all__ = ["shown_progress"]

LINES: Final = 10
"""How many lines there are where there is no terminal."""


@contextmanager
def shown_progress(size: int) -> Iterator[Advance]:
    """Show how far a job is, on standard error, whenever the function that this gives is called.

    Args:
        size: The input's, in bytes.
    """
    if sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
        except ModuleNotFoundError:
            pass
        else:
            columns = (
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.description}"),
            )
            with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
                task = progress.add_task("", total=size)
                yield _counting(lambda done, text: progress.update(task, completed=done, description=text))
            return
    shown = 0

    def line(done: int, text: str) -> None:
        nonlocal shown
        if size and done * LINES // size > shown:
            shown = done * LINES // size
            sys.stderr.write(f"{done * 100 // size}%: {text}\n")

    yield _counting(line)


def _counting(show: Callable[[int, str], object]) -> Advance:
    done = lines = failed = 0

    def advance(size: int, counts: Tally) -> None:
        nonlocal done, lines, failed
        done, lines, failed = done + size, lines + counts.requests, failed + sum(counts.failed.values())
        show(done, f"{lines:,} lines" + (f", {failed:,} of them failed" if failed else ""))

    return advance
