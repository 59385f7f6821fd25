"""Show the steps of a build: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["show_progress"]

_STEPS: Final = 2
"""A model is read, then compiled."""


@contextmanager
def show_progress(models: int) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the step it is called with, on standard error.

    Args:
        models: How many models are built. Without a terminal, the steps of a single one are not shown.
    """
    if sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.markup import escape
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        except ModuleNotFoundError:
            pass
        else:
            columns = (SpinnerColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
            with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
                task = progress.add_task("", total=_STEPS * models, completed=-1)
                yield lambda step: progress.update(task, advance=1, description=escape(step))
            return
    yield lambda step: print(step, file=sys.stderr) if models > 1 else None  # noqa: T201
