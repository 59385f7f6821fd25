"""Files of a job, and the command that runs it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from derender.batch.local.paths import OutputPaths
from derender.batch.local.work_folder import open_job
from derender.batch.steps.derender import derender_part
from derender.batch.stores.files import FileStore
from derender.cli import main
from derender.settings import Settings
from tests.batch.jobs import make_worker

if TYPE_CHECKING:
    from pathlib import Path

    from derender.batch.job import Job

__all__ = ["Files", "derender_first_piece", "open_work_folder", "run"]


class Files(NamedTuple):
    """The files of a job."""

    source: Path
    results: Path
    errors: Path
    manifest: Path
    work: Path

    @property
    def paths(self) -> OutputPaths:
        """The paths of the outputs."""
        return OutputPaths(*self[1:])

    @property
    def outputs(self) -> tuple[bytes, bytes, bytes]:
        """Contents of the outputs."""
        return self.results.read_bytes(), self.errors.read_bytes(), self.manifest.read_bytes()


def run(files: Files, *options: str) -> int:
    """Run the command, and return its exit status."""
    return main(["batch", str(files.source), str(files.results), *options])


def open_work_folder(files: Files) -> Job:
    """Make the work folder of a job, without any pieces."""
    return open_job(files.source, files.paths, Settings.from_environment(os.environ))


def derender_first_piece(files: Files) -> Path:
    """Derender the first piece of a job, and return its results."""
    job = open_work_folder(files)
    derender_part(make_worker(FileStore()), job, 0, is_late=lambda: True, observe=lambda _: None)
    (path,) = (files.work / "results").iterdir()
    return path
