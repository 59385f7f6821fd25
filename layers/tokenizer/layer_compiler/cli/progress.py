"""What a build is doing: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["shown_progress"]


@contextmanager
def shown_progress(models: int) -> Iterator[Callable[[str], None]]:
    """Show what is done next, whenever the function that this gives is called with it.

    Args:
        models: How many there are; of more than one, each step is a line where there is no terminal.
    """
    if sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        except ModuleNotFoundError:
            pass
        else:
            columns = (SpinnerColumn(), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
            # On standard error, and gone in the end: what is printed can be piped on.
            with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
                # A model is fetched, then compiled.
                task = progress.add_task("", total=2 * models, completed=-1)

                def advance(text: str) -> None:
                    progress.update(task, advance=1, description=text.replace("[", r"\["))

                yield advance
            return
    yield _line if models > 1 else _nothing


def _line(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _nothing(_: str) -> None:
    pass
