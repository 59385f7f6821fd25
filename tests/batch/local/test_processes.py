"""Jobs in worker processes: they are killed, interrupted, started twice, and fail."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from itertools import cycle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from derender.batch import BatchError
from derender.batch.local import processes
from derender.batch.stores.store import Changed
from derender.settings import Settings
from tests.batch.bucket import BUCKET, S3_ACCESS
from tests.batch.inputs import chat, generated, line, lines
from tests.layers.stand_ins import Answer, serve
from tests.support.waiting import wait_until

from .files import Files, open_work_folder, run

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE: Final = 120
"""Seconds after which a test is taken to hang."""
PART: Final = 4096


@pytest.mark.usefixtures("_in_processes")
def test_a_file_is_derendered_by_two_processes(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files, "--workers", "2") == 0
    assert capsys.readouterr().out.startswith("5 lines: 2 answered, 3 failed ")


class Halfway(NamedTuple):
    """A job of nine parts in two processes. Four parts are finished; the next two wait for S3."""

    process: subprocess.Popen[str]
    go_on: threading.Event
    """Ends the wait."""

    def wait(self) -> str:
        """Wait for the end of all processes, and return what they wrote to standard error."""
        _, written = self.process.communicate(timeout=PATIENCE)
        wait_until(lambda: not is_running(self.process.pid), PATIENCE)
        return written


@pytest.fixture
def halfway(files: Files, monkeypatch: pytest.MonkeyPatch) -> Iterator[Halfway]:
    """Return a job that has come so far: S3 delays the objects that two lines refer to."""
    asked, go_on = threading.Semaphore(0), threading.Event()

    def answer(*_: object) -> Answer:
        asked.release()
        assert go_on.wait(PATIENCE)
        return 200, {"content-type": "application/json"}, json.dumps(generated()).encode()

    content, offset, late = list[bytes](), 0, {4, 5}
    # With bad lines and duplicates.
    for each in cycle([b"x\n", *lines(100), line("line-00007")]):
        if (part := offset // PART) == 9:
            break
        content.append(line(f"late-{part}", chat(f"s3://{BUCKET}/late")) if part in late else each)
        late.discard(part)
        offset += len(content[-1])
    files.source.write_bytes(b"".join(content))
    with monkeypatch.context() as patch:
        patch.setattr("derender.batch.steps.plan.MIN_PART_BYTES", PART)
        open_work_folder(files)
    with serve(answer) as url:
        for name, value in (*S3_ACCESS.items(), ("AWS_ENDPOINT_URL", url)):
            monkeypatch.setenv(name, value)
        command = [sys.executable, "-m", "derender", "batch", str(files.source), str(files.results)]
        with subprocess.Popen(
            [*command, "--workers", "2"], start_new_session=True, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                for _ in range(2):
                    assert asked.acquire(timeout=PATIENCE)
                yield Halfway(process, go_on)
            finally:
                go_on.set()
                process.kill()


def is_running(group: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


def count_lines(files: Files) -> int:
    return files.source.read_bytes().count(b"\n")


def test_a_killed_job_goes_on(files: Files, halfway: Halfway) -> None:
    halfway.process.kill()
    halfway.wait()  # for its workers, too
    assert not files.results.exists()
    kept = {name: (files.work / name).read_bytes() for name in (".derender-batch", "job.json")}
    assert len(list((files.work / "records").iterdir())) == 4

    halfway.go_on.set()
    assert run(files) == 0
    outputs = files.outputs
    assert not files.work.exists()

    # The same job in one go.
    files.work.mkdir()
    for name, content in kept.items():
        (files.work / name).write_bytes(content)
    assert run(files) == 0
    assert files.outputs == outputs
    assert json.loads(outputs[2])["counts"]["total"] == count_lines(files)


def test_ctrl_c_ends_a_job_that_can_go_on(files: Files, halfway: Halfway) -> None:
    os.killpg(halfway.process.pid, signal.SIGINT)  # as a terminal does
    halfway.go_on.set()  # pieces that were begun are finished
    written = halfway.wait()
    assert halfway.process.returncode == 130
    assert written.splitlines()[-1] == (
        f"derender: stopped; run it again to go on (work so far is in {files.work})"
    )
    assert "Traceback" not in written
    assert not files.results.exists()
    assert run(files) == 0
    assert json.loads(files.manifest.read_bytes())["counts"]["total"] == count_lines(files)


def test_a_second_run_is_refused(files: Files, halfway: Halfway, capsys: pytest.CaptureFixture[str]) -> None:
    lock = files.paths.lock
    job = (files.work / "job.json").read_bytes()
    for options in ((), ("--restart",)):
        assert run(files, *options) == 1
        assert capsys.readouterr().err == f"derender: another run is writing there: it holds {lock}\n"
    assert (files.work / "job.json").read_bytes() == job
    halfway.go_on.set()
    halfway.wait()
    assert halfway.process.returncode == 0
    results, errors, _ = files.outputs
    assert (results + errors).count(b"\n") == count_lines(files)
    assert not lock.exists()


@pytest.mark.usefixtures("_in_processes")
def test_an_input_that_changes_meanwhile_fails_the_job(files: Files) -> None:
    job = open_work_folder(files)
    files.source.write_bytes(line() * 2)
    with pytest.raises(Changed, match=r"in\.jsonl was changed"):
        processes.derender_parts(
            job, Settings.from_environment({}), workers=1, advance=lambda _size, _tally: None
        )


@pytest.mark.usefixtures("_in_processes")
def test_a_worker_that_dies_is_one_line(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The initializer of a worker process ends it.
    monkeypatch.setattr(processes, "_start_process", os._exit)
    monkeypatch.setattr(Settings, "__reduce__", lambda _: (int, ()))
    assert run(files, "--workers", "1") == 1
    assert "a worker died" in capsys.readouterr().err
    assert files.work.exists()


def test_references_need_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "boto3"] or ["boto3"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "derender.batch.stores.s3", raising=False)
    processes._open_s3.cache_clear()
    with pytest.raises(BatchError, match=r"need boto3.*: pip install 'derender\[batch\]'"):
        processes._open_s3()


@pytest.mark.usefixtures("_in_processes")
def test_missing_credentials_are_one_line(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    files.source.write_bytes(line() + line("b", chat("s3://bucket/key")))
    assert run(files, "--workers", "1") == 1
    assert capsys.readouterr().err == "derender: s3://bucket/key: Unable to locate credentials\n"
    assert files.work.exists()


@pytest.mark.usefixtures("_in_processes")
def test_interrupts_can_not_be_held_everywhere(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("signal.pthread_sigmask")  # as on Windows
    assert run(files, "--workers", "1") == 0


def test_a_worker_exits_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(
        processes, "parent_process", lambda: SimpleNamespace(join=lambda: calls.append("joined"))
    )
    monkeypatch.setattr("os._exit", calls.append)
    processes._exit_with_parent()
    assert calls == ["joined", 1]
