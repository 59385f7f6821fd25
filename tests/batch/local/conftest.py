"""Jobs on files, in this process unless a test asks for worker processes."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.batch.local import processes
from derender.batch.local.paths import locate_outputs
from tests.batch.inputs import line

from .files import Files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from derender.settings import Settings


class InProcess(Executor):
    """An executor that calls functions at once, in this process."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Call a function."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def open_in_process(settings: Settings, workers: int) -> Iterator[Executor]:
    """Replace worker processes, which take seconds to start."""
    assert workers > 0
    processes.load_worker(settings, threading.Event())
    yield InProcess()


OPEN_PROCESSES: Final = processes.open_pool


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "open_pool", open_in_process)


@pytest.fixture
def _in_processes(monkeypatch: pytest.MonkeyPatch, _in_process: None) -> None:
    """Run parts in worker processes."""
    monkeypatch.setattr(processes, "open_pool", OPEN_PROCESSES)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Return the files of a job. The input has lines of all kinds."""
    (tmp_path / "in.jsonl").write_bytes(line("a") + b"x\n" + line("b", {}) + line("a") + line("c"))
    return Files(tmp_path / "in.jsonl", *locate_outputs(tmp_path / "out.jsonl"))
