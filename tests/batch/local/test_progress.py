"""Progress: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.batch.inputs import lines

from .files import Files, derender_first_piece, run

if TYPE_CHECKING:
    from collections.abc import Iterator


PATIENCE: Final = 120
"""Seconds after which a test is taken to hang."""


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Open a pseudo-terminal, and return both ends."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


def test_a_terminal_shows_a_bar(files: Files, terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-m", "derender", "batch", str(files.source), str(files.results), "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment,
        timeout=PATIENCE,
        check=True,
    )
    os.set_blocking(ours, False)
    shown = b""
    with contextlib.suppress(BlockingIOError, OSError):
        while more := os.read(ours, 1 << 16):
            shown += more
    assert "━".encode() in shown
    assert b"100%" in shown
    assert b"5 lines, 2 of them failed" in shown
    assert done.stdout.startswith(b"5 lines: 2 answered")


def test_elsewhere_a_few_lines_are_written(
    files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("derender.batch.steps.plan.MIN_PART_BYTES", 1000)
    files.source.write_bytes(b"".join([*lines(100), b"x\n"]))
    assert run(files) == 0
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 10
    assert shown[-1] == "100%: 101 lines, 1 of them failed"


def test_a_single_line_is_counted_as_one(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.source.write_bytes(b"".join(lines(1)))
    assert run(files) == 0
    assert capsys.readouterr().err == "100%: 1 line\n"


def test_finished_pieces_of_an_earlier_run_count(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    derender_first_piece(files)
    assert run(files) == 0
    assert capsys.readouterr().err == "100%: 5 lines, 2 of them failed\n"


def test_a_terminal_without_rich_shows_lines(
    files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert run(files) == 0
    assert capsys.readouterr().err == "100%: 5 lines, 2 of them failed\n"
