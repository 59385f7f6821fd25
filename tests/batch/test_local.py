"""`derender batch`: files in, files out, on several processes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from derender.batch import BatchError, local
from derender.batch.folder import FileStore
from derender.batch.lock import locked
from derender.batch.part import derender_part
from derender.cli import main
from derender.settings import Settings
from derender.vocabulary import dump
from tests.support.vocabularies import manifest

from ..layers.serving import Answer, serving
from ..relay.upstream import wait_until
from .support import BUCKET, HELLO, S3_ACCESS, chat, generated, line, worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE: Final = 120
"""Seconds after which something hangs."""
PART: Final = 1 << 20


class Files(NamedTuple):
    """A job's files."""

    source: Path
    results: Path
    errors: Path
    manifest: Path
    work: Path

    @property
    def made(self) -> tuple[bytes, bytes, bytes]:
        """What was written."""
        return self.results.read_bytes(), self.errors.read_bytes(), self.manifest.read_bytes()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Where a job's files are; the input has lines of all kinds."""
    (tmp_path / "in.jsonl").write_bytes(line("a") + b"x\n" + line("b", {}) + line("a") + line("c"))
    return Files(tmp_path / "in.jsonl", *local.outputs(tmp_path / "out.jsonl"))


@pytest.fixture(scope="module")
def large() -> bytes:
    """An input of nine parts: good lines, a bad one and a duplicate in each."""
    lines = [line(f"line-{number:05}", chat(generated(HELLO * 200))) for number in range(1000)]
    content = b"".join(lines)
    while len(content) < 8 * PART:
        content += b"x\n" + b"".join(lines[:50]).replace(b"line-", b"%d-" % len(content)) + lines[7]
    return content


def run(files: Files, *options: str) -> int:
    return main(["batch", str(files.source), str(files.results), *options])


def command(files: Files, *options: str) -> list[str]:
    return [sys.executable, "-m", "derender", "batch", str(files.source), str(files.results), *options]


def begun(files: Files) -> bytes:
    """Begin a job, and do none of it; what it is."""
    settings = Settings.from_environment(os.environ)
    local.begin(files.source, local.outputs(files.results), settings)
    return (files.work / "job.json").read_bytes()


# --- what is written ------------------------------------------------------------------------------------------


def test_a_file_is_derendered(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files) == 0
    results, errors, manifest = files.made
    assert [json.loads(each)["custom_id"] for each in results.splitlines()] == ["a", "c"]
    assert [json.loads(each)["custom_id"] for each in errors.splitlines()] == [None, "b", "a"]
    about = json.loads(manifest)
    assert about["counts"] == {"total": 5, "completed": 2, "failed": 3}
    assert about["results"] == [{"key": "out.jsonl", "bytes": len(results), "lines": 2}]
    assert about["errors"] == {"key": "out.errors.jsonl", "bytes": len(errors), "lines": 3}
    assert about["job"]["output"] == str(files.results)
    assert sorted(path.name for path in files.source.parent.iterdir()) == [
        "in.jsonl",
        "out.errors.jsonl",
        "out.jsonl",
        "out.manifest.json",
    ]
    printed = capsys.readouterr()
    assert printed.out == (
        "5 lines: 2 answered, 3 failed (1 InvalidRequest, 1 duplicate_custom_id, 1 invalid_json_line): see "
        f"{files.errors}\n"
    )
    assert printed.err == "100%: 5 lines, 2 of them failed\n"


def test_files_of_a_job_before_are_replaced(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (files.results, files.errors, files.manifest):
        path.write_text("before")
    files.source.write_bytes(line())
    assert run(files) == 0
    assert json.loads(files.results.read_bytes())["custom_id"] == "a"
    assert json.loads(files.manifest.read_bytes())["errors"] is None
    assert not files.errors.exists()
    assert capsys.readouterr().out == "1 line: 1 answered\n"


def test_an_empty_file_has_no_results(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.source.write_bytes(b"")
    assert run(files) == 0
    assert files.results.read_bytes() == b""
    assert capsys.readouterr().out == "0 lines: 0 answered\n"


@pytest.mark.parametrize("name", ["ü [out]", "results", "records"])
def test_names_may_be_any(tmp_path: Path, name: str) -> None:
    files = Files(tmp_path / "in", *local.outputs(tmp_path / name))
    files.source.write_bytes(line())
    assert run(files) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", name, f"{name}.manifest.json"]


def test_settings_are_those_of_the_environment(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DERENDER_MAX_BODY_BYTES", "20")
    monkeypatch.setenv("DERENDER_SERVED_MODEL_NAME", "mine")
    assert run(files) == 0
    assert files.results.read_bytes() == b""
    assert json.loads(files.manifest.read_bytes())["failures"] == {"invalid_json_line": 1, "line_too_long": 4}


# --- going on -------------------------------------------------------------------------------------------------


class Halfway(NamedTuple):
    """A job of nine parts on two processes. Its first four are done; the two after them wait."""

    process: subprocess.Popen[str]
    go_on: threading.Event
    """Ends their wait."""

    def ended(self) -> str:
        """What the process has told, once all of them have ended."""
        _, told = self.process.communicate(timeout=PATIENCE)
        wait_until(lambda: not is_running(self.process.pid), PATIENCE)
        return told


@pytest.fixture
def halfway(files: Files, large: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Halfway]:
    """A job that has come so far: S3 does not answer yet what two lines refer to."""
    asked, go_on = threading.Semaphore(0), threading.Event()

    def answer(*_: object) -> Answer:
        asked.release()
        assert go_on.wait(PATIENCE)
        return 200, {"content-type": "application/json"}, json.dumps(generated()).encode()

    content = large
    for part in (5, 4):
        place = content.index(b"\n", part * PART + PART // 2) + 1
        content = content[:place] + line(f"late-{part}", chat(f"s3://{BUCKET}/late")) + content[place:]
    files.source.write_bytes(content)
    with serving(answer) as url:
        for name, value in (*S3_ACCESS.items(), ("AWS_ENDPOINT_URL", url)):
            monkeypatch.setenv(name, value)
        with subprocess.Popen(
            command(files, "--workers", "2"), start_new_session=True, stderr=subprocess.PIPE, text=True
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


def test_a_job_that_was_killed_goes_on(files: Files, halfway: Halfway) -> None:
    halfway.process.kill()
    halfway.ended()  # and its workers with it
    assert not files.results.exists()
    job = (files.work / "job.json").read_bytes()
    assert len(list((files.work / "records").iterdir())) == 4

    halfway.go_on.set()
    assert run(files, "--workers", "2") == 0
    made = files.made
    assert not files.work.exists()

    # The same job, from its beginning to its end, on one process.
    files.work.mkdir()
    (files.work / "job.json").write_bytes(job)
    assert run(files, "--workers", "1") == 0
    assert files.made == made
    assert json.loads(made[2])["counts"]["total"] == files.source.read_bytes().count(b"\n")


def test_ctrl_c_ends_a_job_that_can_go_on(files: Files, halfway: Halfway) -> None:
    os.killpg(halfway.process.pid, signal.SIGINT)  # as a terminal does
    halfway.go_on.set()  # what was begun is done to its end
    told = halfway.ended()
    assert halfway.process.returncode == 130
    assert told.splitlines()[-1] == (
        f"derender: stopped; run it again to go on ({files.work} has what is done)"
    )
    assert "Traceback" not in told
    assert not files.results.exists()
    assert run(files) == 0
    assert json.loads(files.manifest.read_bytes())["counts"]["total"] == files.source.read_bytes().count(b"\n")


def piece_done(files: Files) -> Path:
    """Do the first piece of a job; its results."""
    settings = Settings.from_environment(os.environ)
    job = local.begin(files.source, local.outputs(files.results), settings)
    derender_part(worker(FileStore()), job, 0, is_late=lambda: True, observe=lambda _: None)
    (path,) = (files.work / "results").iterdir()
    return path


def test_what_is_done_is_not_done_again(files: Files) -> None:
    files.source.write_bytes(line())
    piece = piece_done(files)
    piece.write_bytes(piece.read_bytes().replace(b"Hello", b"Salve"))
    assert run(files) == 0
    assert b"Salve" in files.results.read_bytes()


@pytest.mark.parametrize("content", [None, b"", b"{}\n"])
@pytest.mark.parametrize("kind", ["results", "errors", "records"])
def test_a_piece_that_is_damaged_is_done_again(files: Files, kind: str, content: bytes | None) -> None:
    piece = piece_done(files)
    (path,) = (files.work / kind).iterdir()
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert run(files) == 0
    assert not piece.exists()
    results, errors, _ = files.made
    assert (results + errors).count(b"\n") == 5


@pytest.mark.parametrize("name", ["notes.txt", "000000000000009.json"])
def test_a_file_that_is_no_record_is_one_line(
    files: Files, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    piece_done(files)
    (files.work / "records" / name).write_bytes(b"\xff{")
    assert run(files) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(f"derender: {files.work}/records/{name} is no record of a piece: ")
    assert run(files, "--restart") == 0


def test_restart_forgets_what_is_done(files: Files) -> None:
    files.source.write_bytes(line())
    piece = piece_done(files)
    piece.write_bytes(b"")
    assert run(files, "--restart") == 0
    assert b"Hello" in files.results.read_bytes()


def test_a_job_may_be_moved(files: Files, tmp_path: Path) -> None:
    piece_done(files)
    moved = Files(tmp_path / "there" / "in.jsonl", *local.outputs(tmp_path / "there" / "out.jsonl"))
    moved.work.parent.mkdir()
    shutil.move(files.source, moved.source)
    shutil.move(files.work, moved.work)
    assert run(moved) == 0
    assert json.loads(moved.manifest.read_bytes())["counts"]["total"] == 5


@pytest.mark.parametrize("gone", ["records", "results", "errors"])
def test_a_job_that_ended_while_it_tidied_up_goes_on(
    files: Files, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    class Killed(BaseException):
        pass

    remove = shutil.rmtree

    def remove_some(path: Path, **options: Any) -> None:
        remove(path, **options)
        if str(path).rstrip("/").endswith(gone):
            raise Killed

    job = begun(files)
    with monkeypatch.context() as patch:
        patch.setattr("derender.batch.local.shutil.rmtree", remove_some)
        with pytest.raises(Killed):
            run(files)
    made = files.made
    assert (files.work / "job.json").read_bytes() == job
    assert run(files) == 0
    assert files.made == made
    assert not files.work.exists()


def changed_input(files: Files) -> None:
    files.source.write_bytes(line() * 2)


def changed_version(files: Files) -> None:
    path = files.work / "job.json"
    path.write_bytes(path.read_bytes().replace(b'"version":"', b'"version":"0.'))


@pytest.mark.parametrize(
    ("change", "environment", "problem"),
    [
        (changed_input, {}, "another input"),
        (changed_version, {}, "another version"),
        (None, {"DERENDER_MAX_LOGPROBS": "5"}, "other settings"),
        (None, {"DERENDER_TOOL_CALL_PARSER": "none"}, "other settings"),
        (None, {"DERENDER_LAYER": "{layer}"}, "other models"),
    ],
)
def test_a_work_folder_of_another_job_is_refused(
    files: Files,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    change: Callable[[Files], None] | None,
    environment: dict[str, str],
    problem: str,
) -> None:
    piece_done(files)
    if change:
        change(files)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(layer=_other_layer(tmp_path)))
    before = sorted(files.work.rglob("*"))
    assert run(files) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"derender: {files.work} was begun with {problem}: ")
    assert "--restart" in told
    assert sorted(files.work.rglob("*")) == before
    assert run(files, "--restart") == 0


def _other_layer(folder: Path) -> Path:
    layer = folder / "layer"
    layer.mkdir(exist_ok=True)
    (layer / "tiny.vocab").write_bytes(dump(manifest(name="tiny"), [b"Hi", b"!", b"</s>"]))
    return layer


@pytest.mark.parametrize("options", [(), ("--restart",)])
def test_a_work_folder_that_was_not_quite_removed_is_begun_anew(files: Files, options: tuple[str, ...]) -> None:
    piece_done(files)
    (files.work / "job.json").unlink()
    (files.work / ".unfinished-1-1-job.json").touch()
    assert run(files, *options) == 0
    assert json.loads(files.manifest.read_bytes())["counts"]["total"] == 5
    assert not files.work.exists()


@pytest.mark.parametrize("options", [(), ("--restart",)])
def test_a_folder_that_is_no_work_folder_is_left_alone(
    files: Files, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    files.work.mkdir()
    (files.work / "thesis.txt").write_text("all of it")
    assert run(files, *options) == 1
    assert f"{files.work} is no work folder" in capsys.readouterr().err
    assert (files.work / "thesis.txt").read_text() == "all of it"


def test_an_input_that_changes_meanwhile_fails_the_job(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings.from_environment(os.environ)
    to = local.outputs(files.results)
    job = local.begin(files.source, to, settings)
    files.source.write_bytes(line() * 2)
    with pytest.raises(Exception, match=r"in\.jsonl was changed"):
        local.derender(job, settings, workers=1, advance=lambda _size, _counts: None)
    assert capsys.readouterr().out == ""


# --- what is wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "results", "problem"),
    [
        ("absent.jsonl", "out.jsonl", "is no file"),
        (".", "out.jsonl", "is no file"),
        ("in.jsonl", ".", "is no regular file"),
        ("in.jsonl", "in.jsonl", "would be overwritten"),
        ("out.errors.jsonl", "out.jsonl", "would be overwritten"),
        ("in.jsonl", "in.jsonl/out.jsonl", "is no folder"),
        ("in.jsonl", "/", "is no regular file"),
        ("in.jsonl", os.devnull, "is no regular file"),
        ("in.jsonl", "fifo", "is no regular file"),
        ("in.jsonl", "taken.jsonl", "taken.errors.jsonl is no regular file"),
        ("in.jsonl", "listed.jsonl", "listed.manifest.json is no regular file"),
    ],
)
def test_what_is_wrong_is_one_line(
    files: Files, capsys: pytest.CaptureFixture[str], source: str, results: str, problem: str
) -> None:
    folder = files.source.parent
    (folder / "out.errors.jsonl").write_bytes(line())
    (folder / "taken.errors.jsonl").mkdir()
    (folder / "listed.manifest.json").mkdir()
    os.mkfifo(folder / "fifo")
    content = files.source.read_bytes()
    assert main(["batch", str(folder / source), str(folder / results)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("derender: ")
    assert printed.err.count("\n") == 1
    assert problem in printed.err
    assert files.source.read_bytes() == content
    assert not files.work.exists()


def test_a_file_without_a_name_is_one_line(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", str(files.source), ""]) == 1
    assert capsys.readouterr().err == "derender: . is no regular file\n"


def test_a_link_stays_and_what_it_leads_to_is_written(files: Files, tmp_path: Path) -> None:
    target = tmp_path / "there" / "made.jsonl"
    target.parent.mkdir()
    files.results.symlink_to(target)
    assert run(files) == 0
    assert files.results.is_symlink()
    assert target.read_bytes().count(b"\n") == 2
    assert sorted(path.name for path in target.parent.iterdir()) == [
        "made.errors.jsonl",
        "made.jsonl",
        "made.manifest.json",
    ]


def test_ctrl_c_while_it_starts_is_no_fault(files: Files) -> None:
    # As the signal does, wherever what takes long to import is.
    program = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'derender.settings': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "sys.argv[1:] = ['batch', *sys.argv[1:]]\n"
        "from derender.cli import main\n"
        "sys.exit(main())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(files.source), str(files.results)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (ended.returncode, ended.stderr) == (130, "")


def test_a_bad_setting_is_one_line(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DERENDER_MAX_LOGPROBS", "many")
    assert run(files) == 1
    assert capsys.readouterr().err.startswith("derender: DERENDER_MAX_LOGPROBS")


@pytest.mark.parametrize("number", ["0", "-1", "x"])
def test_there_is_a_worker(files: Files, capsys: pytest.CaptureFixture[str], number: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(files, "--workers", number)
    assert "--workers" in capsys.readouterr().err


def test_a_worker_that_dies_is_one_line(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a worker is made with ends it.
    monkeypatch.setattr(local, "_start", os._exit)
    monkeypatch.setattr(Settings, "__reduce__", lambda _: (int, ()))
    assert run(files) == 1
    assert "a worker has died" in capsys.readouterr().err
    assert files.work.exists()


def test_references_need_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "boto3"] or ["boto3"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "derender.batch.s3", raising=False)
    local._references.cache_clear()
    with pytest.raises(BatchError, match=r"need boto3.*: pip install 'derender\[batch\]'"):
        local._references()


def test_what_a_reference_needs_and_has_not_is_one_line(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    files.source.write_bytes(line() + line("b", chat("s3://bucket/key")))
    assert run(files) == 1
    told = capsys.readouterr().err
    assert told == "derender: s3://bucket/key: Unable to locate credentials\n"
    assert files.work.exists()


# --- two at a time --------------------------------------------------------------------------------------------


def test_a_second_run_is_refused(files: Files, halfway: Halfway, capsys: pytest.CaptureFixture[str]) -> None:
    lock = local.outputs(files.results).lock
    job = (files.work / "job.json").read_bytes()
    for options in ((), ("--restart",)):
        assert run(files, *options) == 1
        assert capsys.readouterr().err == f"derender: another run writes there now: it holds {lock}\n"
    assert (files.work / "job.json").read_bytes() == job
    halfway.go_on.set()
    halfway.ended()
    assert halfway.process.returncode == 0
    results, errors, _ = files.made
    assert (results + errors).count(b"\n") == files.source.read_bytes().count(b"\n")
    assert not lock.exists()


def test_a_lock_is_not_kept_by_who_was_killed(files: Files) -> None:
    lock = local.outputs(files.results).lock
    lock.touch()
    assert run(files) == 0
    assert not lock.exists()


def test_a_file_that_is_no_lock_is_left_alone(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    lock = local.outputs(files.results).lock
    lock.write_text("mine")
    assert run(files) == 1
    assert capsys.readouterr().err == f"derender: {lock} is no lock: move it away\n"
    assert lock.read_text() == "mine"


def test_a_lock_that_was_removed_meanwhile_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, taken = tmp_path / "lock", list[int]()

    def take(file: int, _how: int) -> None:
        taken.append(file)
        if len(taken) == 1:
            path.unlink()  # by who held it until now

    monkeypatch.setattr("derender.batch.lock.fcntl.flock", take)
    with locked(path):
        assert len(taken) == 2
        assert path.exists()
    assert not path.exists()


# --- progress -------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A terminal's two ends."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


def test_there_is_a_bar_on_a_terminal(files: Files, terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(
        command(files, "--workers", "1"),
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


def test_elsewhere_there_are_a_few_lines(
    files: Files, large: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    files.source.write_bytes(large)
    assert run(files) == 0
    shown = capsys.readouterr().err.splitlines()
    assert 5 < len(shown) <= 10
    assert shown[-1].startswith(f"100%: {large.count(bytes([10])):,} lines, ")


def test_what_was_done_before_counts(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    piece_done(files)
    assert run(files) == 0
    assert capsys.readouterr().err == "100%: 5 lines, 2 of them failed\n"
