"""`derender batch IN OUT`."""

# ruff: noqa: T201 - what a command prints is what it is for

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from derender.models.layer import load_models
from derender.settings import Settings

from .errors import BatchError
from .local import begin, check, conclude, derender, outputs
from .lock import locked
from .progress import shown_progress
from .stores import StoreError

if TYPE_CHECKING:
    from .finish import Manifest
    from .local import Outputs

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument(
        "source", type=Path, metavar="IN", help="JSON lines of requests, as for OpenAI's batches"
    )
    parser.add_argument(
        "results",
        type=Path,
        metavar="OUT",
        help="where to write the results; errors and a manifest are put beside them",
    )
    parser.add_argument(
        "--workers",
        type=_count,
        default=_cores(),
        metavar="N",
        help="processes (%(default)s, one for each core)",
    )
    parser.add_argument(
        "--restart", action="store_true", help="forget what an earlier run has done, instead of going on"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command.

    Returns:
        0, also where lines failed; 1 where the job did, with one line on standard error.
    """
    settings = Settings.from_environment(os.environ)
    load_models(settings)
    try:
        to = outputs(options.results)
        check(options.source, to)
        with locked(to.lock):
            made = _run(options, settings, to)
    except (BatchError, OSError, StoreError) as error:
        print(f"derender: {error}", file=sys.stderr)
        return 1
    if made is None:
        print(f"derender: stopped; run it again to go on ({to.work} has what is done)", file=sys.stderr)
        return 130
    print(_summary(made, to.errors))
    return 0


def _run(options: argparse.Namespace, settings: Settings, to: Outputs) -> Manifest | None:
    """Do the job; None where it was stopped."""
    try:
        job = begin(options.source, to, settings, restart=options.restart)
        with shown_progress(job.size) as advance:
            derender(job, settings, workers=options.workers, advance=advance)
        return conclude(job, to)
    except KeyboardInterrupt:
        return None


def _summary(made: Manifest, errors: Path) -> str:
    counts = made.counts
    text = f"{counts.total:,} {'line' if counts.total == 1 else 'lines'}: {counts.completed:,} answered"
    if not counts.failed:
        return text
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in made.failures.items())
    return f"{text}, {counts.failed:,} failed ({kinds}): see {errors}"


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("one worker is the least")
    return number
