"""A job on files here, on all cores. Its pieces are kept beside the output until it is done: it can go on."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from multiprocessing import get_context, parent_process
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from derender import __version__
from derender.models.layer import load_models
from derender.protocol.json_errors import JSON_ERRORS
from derender.telemetry.tally import NOTHING
from derender.vocabulary import files, read_manifest

from .errors import BatchError
from .finish import ObjectLines, join, manifest, settle
from .folder import FileStore
from .job import Job, plan
from .part import Worker, derender_part
from .stores import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.synchronize import Event
    from pathlib import Path

    from derender.settings import Settings
    from derender.telemetry.tally import Tally

    from .finish import Manifest
    from .progress import Advance
    from .stores import Store

__all__ = ["Outputs", "begin", "check", "conclude", "derender", "outputs"]

_JOB: Final = "job.json"
_PIECES: Final = ("records", "results", "errors", "settled")
_JOINED: Final = ("results.jsonl", "errors.jsonl", "manifest.json")


class Outputs(NamedTuple):
    """What is written."""

    results: Path
    errors: Path
    manifest: Path
    work: Path
    """The folder of pieces, until the end."""

    @property
    def lock(self) -> Path:
        """Held by the process that writes all this."""
        return self.results.with_name(f"{self.results.name}.lock")


def outputs(results: Path) -> Outputs:
    """The paths of what is written beside the results. Of a link, that is beside what it leads to.

    Raises:
        BatchError: It is the name of no file.
    """
    # Asked before the link is followed: what some lead to has no name, such as /dev/stdout in a pipe.
    if not results.name or (results.exists() and not results.is_file()):
        raise BatchError(f"{results} is no regular file")
    if results.is_symlink():
        results = results.resolve()
    stem = results.name.removesuffix(".jsonl")
    return Outputs(
        results,
        results.with_name(f"{stem}.errors.jsonl"),
        results.with_name(f"{stem}.manifest.json"),
        results.with_name(f"{results.name}.partial"),
    )


class _Begun(msgspec.Struct, frozen=True):
    """What a work folder is of."""

    job: Job
    version: str
    settings: dict[str, Any]
    models: dict[str, str]
    """Name of a vocabulary → digest."""


def check(source: Path, to: Outputs) -> None:
    """Check what is to be read and written, before anything is.

    Raises:
        BatchError: One is no file, or would be overwritten.
    """
    if not source.is_file():
        raise BatchError(f"{source} is no file")
    for path in (to.errors, to.manifest):
        if path.exists() and not path.is_file():
            raise BatchError(f"{path} is no regular file")
    if source.resolve() in [path.resolve() for path in (*to, to.lock)]:
        raise BatchError(f"{source} would be overwritten")


def begin(source: Path, to: Outputs, settings: Settings, *, restart: bool = False) -> Job:
    """The job of a work folder, which is made where there is none.

    Args:
        source: The input.
        to: What is written.
        settings: What answers depend on.
        restart: Whether to forget what was done.

    Raises:
        BatchError: The folder is of another job, or of none.
        StoreError: Something can't be read or written.
    """
    store = FileStore()
    is_begun = (to.work / _JOB).is_file()
    if not is_begun and not {*store.names(f"{to.work}/")} <= {
        f"{to.work}/{each}" for each in (*_PIECES, *_JOINED)
    }:
        raise BatchError(f"{to.work} is no work folder of a batch: move it away")
    if to.work.is_dir() and (restart or not is_begun):
        _remove(to.work)
    fresh = _Begun(
        plan(store, str(source.resolve()), f"{to.work.resolve()}/", uuid4().hex, int(time.time())),
        __version__,
        msgspec.json.decode(msgspec.json.encode(settings.affecting_answers())),
        {each.name: _digest(msgspec.json.encode(each)) for each in map(read_manifest, files(settings.layer))},
    )
    name = str(to.work / _JOB)
    try:
        begun = msgspec.json.decode(store.read(name), type=_Begun)
    except NotFound:
        store.write(name, msgspec.json.encode(fresh))
        return fresh.job
    except JSON_ERRORS:
        raise BatchError(f"{to.work} can't be read: start over with --restart") from None
    differing = [what for what, is_same in _compared(begun, fresh) if not is_same]
    if differing:
        raise BatchError(
            f"{to.work} was begun with {' and '.join(differing)}: go on with what it was begun with, or start "
            "over with --restart"
        )
    # Both may have been moved.
    return replace(begun.job, input=fresh.job.input, output=fresh.job.output)


def derender(job: Job, settings: Settings, *, workers: int, advance: Advance) -> None:
    """Derender what is not done yet.

    Args:
        job: The job.
        settings: The settings.
        workers: How many processes do it.
        advance: Told of each part that is done.

    Raises:
        BatchError: The input was changed meanwhile.
        StoreError: Something can't be read or written.
    """
    # Not forked: threads and a fork don't go together, and this is the same on all systems.
    context = get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(workers, context, _start, (settings, stop)) as pool:
        try:
            with _interrupts_held():
                sizes = {
                    pool.submit(_derender, job, start): job.part_end(start) - start for start in job.starts
                }
            for part in as_completed(sizes):
                advance(sizes[part], part.result())
        except BrokenProcessPool:
            raise BatchError(
                "a worker has died, perhaps for want of memory: run the command again to go on, with fewer "
                "--workers if need be"
            ) from None
        finally:
            # Where all went well there is nothing to stop.
            stop.set()
            pool.shutdown(cancel_futures=True)


def conclude(job: Job, to: Outputs) -> Manifest:
    """Make the output of the pieces, and remove them.

    Raises:
        BatchError: A piece is missing, or damaged.
        StoreError: Something can't be read or written.
    """
    store = FileStore()
    pieces, counts = settle(store, job)
    # Made in the work folder: elsewhere, what is unfinished would stay if this ended here.
    results, errors, listed = (to.work / name for name in _JOINED)
    joined = join(store, [piece.results for piece in pieces], str(results))
    refused = join(store, [piece.errors for piece in pieces], str(errors))
    made = manifest(
        replace(job, output=str(to.results.resolve())),
        counts,
        [ObjectLines(to.results.name, joined.bytes, joined.lines)],
        ObjectLines(to.errors.name, refused.bytes, refused.lines) if refused.lines else None,
    )
    store.write(str(listed), msgspec.json.encode(made) + b"\n")
    if refused.lines:
        errors.replace(to.errors)
    else:
        to.errors.unlink(missing_ok=True)  # of a job before
    listed.replace(to.manifest)
    results.replace(to.results)
    _remove(to.work)
    return made


def _remove(work: Path) -> None:
    # Records go first, or pieces would count as done that are not there; and last what the folder is of.
    for name in _PIECES:
        shutil.rmtree(work / name, ignore_errors=True)
    for name in (*_JOINED, _JOB):
        (work / name).unlink(missing_ok=True)
    shutil.rmtree(work)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started meanwhile: it reaches all, but the first is to stop them."""
    if hasattr(signal, "pthread_sigmask"):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    else:
        yield  # so on Windows one that is not ready yet may be interrupted


_worker: Worker
_stop: Event


def _start(settings: Settings, stop: Event) -> None:
    """Make a worker of this process."""
    global _worker, _stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _stop = stop
    _worker = Worker(
        FileStore(),
        load_models(settings),
        max_body_bytes=settings.max_body_bytes,
        max_sequences=settings.max_sequences,
        references=_references,
    )


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@cache
def _references() -> Store:
    try:
        from .s3 import connect
    except ModuleNotFoundError as error:
        raise BatchError(f"references into S3 need {error.name}: pip install 'derender[batch]'") from None
    return connect()


def _derender(job: Job, start: int) -> Tally:
    """Derender a part, unless all are to stop; also what of it was done before is counted."""
    counts, place = NOTHING, start
    while not _stop.is_set():
        done = derender_part(_worker, job, place, is_late=_stop.is_set, observe=lambda _: None)
        counts += done.tally
        if done.next is None:
            break
        place = done.next
    return counts


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _compared(begun: _Begun, fresh: _Begun) -> list[tuple[str, bool]]:
    """What a work folder may be of that is not wanted now."""
    return [
        ("another input", begun.job.etag == fresh.job.etag),
        ("another version", begun.version == fresh.version),
        ("other settings", begun.settings == fresh.settings),
        ("other models", begun.models == fresh.models),
    ]
