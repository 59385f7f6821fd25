"""Progress of a job: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from derender.telemetry.tally import Tally

    Advance = Callable[[int, Tally], None]
    """Called with the bytes and the tally of each finished part."""

__all__ = ["show_progress"]

LINES: Final = 10
"""Lines in all, if there is no terminal."""


@contextmanager
def show_progress(size: int) -> Iterator[Advance]:
    """Show progress on standard error each time the yielded function is called.

    Args:
        size: Bytes of the input.
    """
    if sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
        except ModuleNotFoundError:
            pass
        else:
            columns = BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}")
            with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
                task = progress.add_task("", total=size)
                yield _count(lambda done, text: progress.update(task, completed=done, description=text))
            return
    shown = 0

    def write_line(done: int, text: str) -> None:
        nonlocal shown
        if size and done * LINES // size > shown:
            shown = done * LINES // size
            sys.stderr.write(f"{done * 100 // size}%: {text}\n")

    yield _count(write_line)


def _count(show: Callable[[int, str], object]) -> Advance:
    done = lines = failed = 0

    def advance(size: int, tally: Tally) -> None:
        nonlocal done, lines, failed
        done, lines, failed = done + size, lines + tally.requests, failed + sum(tally.failed.values())
        noun = "line" if lines == 1 else "lines"
        show(done, f"{lines:,} {noun}" + (f", {failed:,} of them failed" if failed else ""))

    return advance
