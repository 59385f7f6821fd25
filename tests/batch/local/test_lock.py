"""Locks: one run at a time writes to the same place."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from derender.batch.local.lock import hold_lock
from derender.batch.local.paths import locate_outputs

from .files import Files, run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_lock_file_that_nobody_holds_is_taken(files: Files) -> None:
    lock = files.paths.lock
    lock.touch()
    assert run(files) == 0
    assert not lock.exists()


def test_a_file_that_is_no_lock_is_left_alone(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    lock = files.paths.lock
    lock.write_text("mine")
    assert run(files) == 1
    assert capsys.readouterr().err == f"derender: {lock} is no lock: move it away\n"
    assert lock.read_text() == "mine"


def test_results_that_share_their_errors_share_a_lock(tmp_path: Path) -> None:
    one, other = (locate_outputs(tmp_path / name) for name in ("q", "q.jsonl"))
    assert (one.errors, one.lock) == (other.errors, other.lock)


def test_a_lock_that_its_holder_removes_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, taken = tmp_path / "lock", list[int]()

    def take(file: int, _how: int) -> None:
        taken.append(file)
        if len(taken) == 1:
            path.unlink()  # by who held it until now

    monkeypatch.setattr("derender.batch.local.lock.fcntl.flock", take)
    with hold_lock(path):
        assert len(taken) == 2
        assert path.exists()
    assert not path.exists()


def test_a_file_system_without_locks_is_one_line(
    files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_file: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("derender.batch.local.lock.fcntl.flock", refuse)
    assert run(files) == 1
    assert capsys.readouterr().err == f"derender: [Errno {errno.ENOLCK}] No locks available\n"
