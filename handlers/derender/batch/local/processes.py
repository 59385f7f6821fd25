"""Worker processes, one for each core."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context, parent_process
from typing import TYPE_CHECKING

from derender.batch.errors import BatchError
from derender.batch.lines.references import References
from derender.batch.steps.derender import Worker, derender_part
from derender.batch.stores.files import FileStore
from derender.models.layer import load_models
from derender.telemetry.tally import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor
    from multiprocessing.synchronize import Event

    from derender.batch.job import Job
    from derender.batch.stores.store import Store
    from derender.settings import Settings
    from derender.telemetry.tally import Tally

    from .progress import Advance

__all__ = ["derender_parts", "load_worker", "open_pool"]


def derender_parts(job: Job, settings: Settings, *, workers: int, advance: Advance) -> None:
    """Derender the parts of a job that are not finished.

    Args:
        job: The job.
        settings: The settings.
        workers: Number of processes.
        advance: Called with the bytes and the tally of each finished part.

    Raises:
        BatchError: The input was changed, or a worker died.
        StoreError: An object can't be read or written.
    """
    try:
        with open_pool(settings, workers) as pool:
            with _hold_interrupts():
                sizes = {
                    pool.submit(_derender, job, start): job.part_end(start) - start for start in job.starts
                }
            for part in as_completed(sizes):
                advance(sizes[part], part.result())
    except BrokenProcessPool:
        raise BatchError(
            "a worker died, perhaps out of memory: run the command again to go on, with fewer --workers if "
            "need be"
        ) from None


@contextmanager
def open_pool(settings: Settings, workers: int) -> Iterator[Executor]:
    """Open a pool of worker processes. Leaving it stops them after the pieces that they are at."""
    # Spawned, not forked: forks and threads don't mix, and spawning is the same on all systems.
    context = get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(workers, context, _start_process, (settings, stop)) as pool:
        try:
            yield pool
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


@contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Keep Ctrl-C from the processes that are started meanwhile: this process is to stop them."""
    if hasattr(signal, "pthread_sigmask"):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    else:
        yield  # on Windows, Ctrl-C may interrupt a process that is starting


# --- in a worker process --------------------------------------------------------------------------------------

_worker: Worker
_stop: Event | threading.Event


def _start_process(settings: Settings, stop: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    load_worker(settings, stop)


def _exit_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def load_worker(settings: Settings, stop: Event | threading.Event) -> None:
    """Load the worker of this process.

    Args:
        settings: The settings.
        stop: Once it is set, parts end after the piece that they are at.
    """
    global _worker, _stop
    _stop = stop
    _worker = Worker(
        FileStore(),
        load_models(settings),
        max_body_bytes=settings.max_body_bytes,
        max_sequences=settings.max_sequences,
        references=References(_open_s3, settings.max_body_bytes),
    )


@cache
def _open_s3() -> Store:
    try:
        from derender.batch.stores.s3 import connect
    except ModuleNotFoundError as error:
        raise BatchError(f"references to S3 objects need {error.name}: pip install 'derender[batch]'") from None
    return connect()


def _derender(job: Job, start: int) -> Tally:
    """Derender a part unless all parts are to stop, and return the tally of its lines, old and new."""
    tally = NOTHING
    next_piece: int | None = start
    while next_piece is not None and not _stop.is_set():
        done = derender_part(_worker, job, next_piece, is_late=_stop.is_set, observe=lambda _: None)
        next_piece, tally = done.next, tally + done.tally
    return tally
