"""The command line of `derender batch`."""

# ruff: noqa: T201 - a command prints

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from derender.batch.errors import BatchError
from derender.batch.stores.store import StoreError
from derender.models.layer import load_models
from derender.settings import Settings

from .lock import hold_lock
from .paths import check_outputs, check_paths, locate_outputs
from .processes import derender_parts
from .progress import show_progress
from .work_folder import open_job, write_outputs

if TYPE_CHECKING:
    from derender.batch.steps.manifest import Manifest

    from .paths import OutputPaths

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "source", type=Path, metavar="IN", help="JSON lines of requests, as for OpenAI's Batch API"
    )
    parser.add_argument(
        "results",
        type=Path,
        metavar="OUT",
        help="file of results; errors and a manifest are written beside it",
    )
    parser.add_argument(
        "--workers",
        type=_read_count,
        default=_count_cores(),
        metavar="N",
        help="number of processes (default: %(default)s, one for each core)",
    )
    parser.add_argument(
        "--restart", action="store_true", help="start over instead of going on where an earlier run was stopped"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command.

    Returns:
        0, even if lines failed. 1 with one line on standard error if the job failed. 130 if it was interrupted.
    """
    settings = Settings.from_environment(os.environ)
    load_models(settings)
    try:
        paths = locate_outputs(options.results)
        check_paths(options.source, paths)
        with hold_lock(paths.lock):
            check_outputs(paths)
            manifest = _run_job(options, settings, paths)
    except KeyboardInterrupt:
        print(f"derender: stopped; run it again to go on (work so far is in {paths.work})", file=sys.stderr)
        return 130
    except (BatchError, OSError, StoreError) as error:
        print(f"derender: {error}", file=sys.stderr)
        return 1
    print(_summarize(manifest, paths.errors))
    return 0


def _run_job(options: argparse.Namespace, settings: Settings, paths: OutputPaths) -> Manifest:
    job = open_job(options.source, paths, settings, restart=options.restart)
    with show_progress(job.size) as advance:
        derender_parts(job, settings, workers=options.workers, advance=advance)
    return write_outputs(job, paths)


def _summarize(manifest: Manifest, errors: Path) -> str:
    counts = manifest.counts
    text = f"{counts.total:,} {'line' if counts.total == 1 else 'lines'}: {counts.completed:,} answered"
    if not counts.failed:
        return text
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in manifest.failures.items())
    return f"{text}, {counts.failed:,} failed ({kinds}): see {errors}"


def _count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _read_count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return count
