"""The work folder of a job on files: its pieces, until its output is complete."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from derender import __version__
from derender.batch.errors import BatchError
from derender.batch.job import Job
from derender.batch.steps.finish import join_lines, settle_pieces
from derender.batch.steps.manifest import ListedLines, make_manifest
from derender.batch.steps.plan import plan_job
from derender.batch.stores.files import FileStore, remove_unfinished
from derender.batch.stores.store import NotFound
from derender.protocol.json_errors import JSON_ERRORS
from derender.vocabulary import find_files, read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from derender.batch.steps.manifest import Manifest
    from derender.settings import Settings

    from .paths import OutputPaths

__all__ = ["open_job", "write_outputs"]

_MARKER: Final = ".derender-batch"
"""File that says that the folder may be emptied. It comes first and goes last."""
_JOB: Final = "job.json"
_PIECES: Final = ("records", "results", "errors", "settled")
_JOINED: Final = ("results.jsonl", "errors.jsonl", "manifest.json")


class WorkFolder(msgspec.Struct, frozen=True):
    """What the pieces in a work folder were made with."""

    job: Job
    version: str
    settings: dict[str, Any]
    models: dict[str, str]
    """Name of a vocabulary → digest of its manifest."""

    def differences(self, other: WorkFolder) -> Iterator[str]:
        """Name what other pieces were made with."""
        if self.job.etag != other.job.etag:
            yield "another input"
        if self.version != other.version:
            yield "another version"
        if self.settings != other.settings:
            yield "other settings"
        if self.models != other.models:
            yield "other models"


def open_job(source: Path, paths: OutputPaths, settings: Settings, *, restart: bool = False) -> Job:
    """Return the job of a work folder, which is made if it does not exist.

    Args:
        source: The input.
        paths: Where the job writes.
        settings: The settings.
        restart: Whether to remove an existing work folder.

    Raises:
        BatchError: The folder is another job's, or no work folder.
        StoreError: A file can't be read or written.
    """
    store, work = FileStore(), paths.work
    marker = work / _MARKER
    if not marker.is_file():
        if work.exists() and (not work.is_dir() or [*store.list_names(f"{work}/")]):
            raise BatchError(f"{work} is no work folder of a batch: move it away")
        store.write(str(marker), b"derender batch made this folder and removes it.\n")
    elif restart or not (work / _JOB).is_file():
        _remove_pieces(work)
    fresh = WorkFolder(
        plan_job(store, str(source.resolve()), f"{work.resolve()}/", uuid4().hex, int(time.time())),
        __version__,
        msgspec.json.decode(msgspec.json.encode(settings.affecting_answers())),
        {
            each.name: _digest(msgspec.json.encode(each))
            for each in map(read_manifest, find_files(settings.layer))
        },
    )
    name = str(work / _JOB)
    try:
        found = msgspec.json.decode(store.read(name), type=WorkFolder)
    except NotFound:
        store.write(name, msgspec.json.encode(fresh))
        return fresh.job
    except JSON_ERRORS:
        raise BatchError(f"{work} can't be read: start over with --restart") from None
    if differences := list(found.differences(fresh)):
        raise BatchError(
            f"{work} was made with {' and '.join(differences)}: run the command as before to go on, or start "
            "over with --restart"
        )
    # The input and the folder may have been moved.
    return replace(found.job, input=fresh.job.input, output=fresh.job.output)


def write_outputs(job: Job, paths: OutputPaths) -> Manifest:
    """Write the outputs of a job whose parts are derendered, and remove its work folder.

    Raises:
        BatchError: A piece is missing or damaged.
        StoreError: A file can't be read or written.
    """
    store = FileStore()
    pieces, tally = settle_pieces(store, job)
    # Written in the work folder and renamed: an interrupted run leaves nothing elsewhere.
    results, errors, listed = (paths.work / name for name in _JOINED)
    joined = join_lines(store, [piece.results for piece in pieces], str(results))
    refused = join_lines(store, [piece.errors for piece in pieces], str(errors))
    manifest = make_manifest(
        replace(job, output=str(paths.results.resolve())),
        tally,
        [ListedLines(paths.results.name, joined.bytes, joined.lines)],
        ListedLines(paths.errors.name, refused.bytes, refused.lines) if refused.lines else None,
    )
    store.write(str(listed), msgspec.json.encode(manifest) + b"\n")
    # The manifest first: it tells whose the errors are.
    listed.replace(paths.manifest)
    if refused.lines:
        errors.replace(paths.errors)
    else:
        paths.errors.unlink(missing_ok=True)  # of an earlier job
    results.replace(paths.results)
    _remove(paths.work)
    return manifest


def _remove_pieces(work: Path) -> None:
    # Records first: a record without its piece would count as a finished piece. The job last.
    for name in _PIECES:
        shutil.rmtree(work / name, ignore_errors=True)
    for name in (*_JOINED, _JOB):
        (work / name).unlink(missing_ok=True)


def _remove(work: Path) -> None:
    _remove_pieces(work)
    remove_unfinished(work)
    (work / _MARKER).unlink()
    # What somebody else put there stays.
    with suppress(OSError):
        work.rmdir()


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
