"""The command `derender batch`: what it writes, prints and refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from derender.batch.local.paths import locate_outputs
from derender.cli import main
from tests.batch.inputs import line

from .files import Files, run

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_derendered(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files) == 0
    results, errors, manifest = files.outputs
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


def test_outputs_of_an_earlier_job_are_replaced(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files) == 0
    assert files.errors.exists()
    files.source.write_bytes(line())
    capsys.readouterr()
    assert run(files) == 0
    assert json.loads(files.results.read_bytes())["custom_id"] == "a"
    assert json.loads(files.manifest.read_bytes())["errors"] is None
    assert not files.errors.exists()
    assert capsys.readouterr().out == "1 line: 1 answered\n"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("out.manifest.json", b"{}", "is no manifest of a batch: move it away"),
        ("out.manifest.json", b"\xff", "is no manifest of a batch: move it away"),
        ("out.manifest.json", b"[" * 100_000, "is no manifest of a batch: move it away"),
        ("out.errors.jsonl", b"mine", "is of no earlier job: move it away"),
    ],
)
def test_other_files_are_not_replaced(
    files: Files, capsys: pytest.CaptureFixture[str], name: str, content: bytes, problem: str
) -> None:
    path = files.results.with_name(name)
    path.write_bytes(content)
    assert run(files) == 1
    assert capsys.readouterr().err == f"derender: {path} {problem}\n"
    assert path.read_bytes() == content
    assert not files.work.exists()


@pytest.mark.parametrize(("first", "second"), [("q", "q.jsonl"), ("q.jsonl", "q")])
def test_results_do_not_share_their_errors(
    files: Files, capsys: pytest.CaptureFixture[str], first: str, second: str
) -> None:
    folder = files.source.parent
    assert main(["batch", str(files.source), str(folder / first)]) == 0
    before = {path: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    assert main(["batch", str(files.source), str(folder / second)]) == 1
    manifest = folder / "q.manifest.json"
    assert (
        capsys.readouterr().err == f"derender: {manifest} is of other results: choose another name for these\n"
    )
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("ending", [".errors.jsonl", ".manifest.json", ".partial", ".lock"])
def test_results_have_no_name_that_is_kept(
    files: Files, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    results = files.source.parent / f"other{ending}"
    assert main(["batch", str(files.source), str(results)]) == 1
    assert capsys.readouterr().err.startswith(f"derender: {results} has a name that is kept")
    assert not results.exists()


def test_an_empty_file_has_no_results(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.source.write_bytes(b"")
    assert run(files) == 0
    assert files.results.read_bytes() == b""
    assert capsys.readouterr().out == "0 lines: 0 answered\n"


def test_a_file_may_begin_with_a_byte_order_mark(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.source.write_bytes(b"\xef\xbb\xbf" + line())
    assert run(files) == 0
    assert capsys.readouterr().out == "1 line: 1 answered\n"


@pytest.mark.parametrize("name", ["ü [out]", "results", "records"])
def test_files_may_have_any_name(tmp_path: Path, name: str) -> None:
    files = Files(tmp_path / "in", *locate_outputs(tmp_path / name))
    files.source.write_bytes(line())
    assert run(files) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", name, f"{name}.manifest.json"]


def test_the_target_of_a_link_is_written(files: Files, tmp_path: Path) -> None:
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


def test_settings_come_from_the_environment(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DERENDER_MAX_BODY_BYTES", "20")
    monkeypatch.setenv("DERENDER_SERVED_MODEL_NAME", "mine")
    assert run(files) == 0
    assert files.results.read_bytes() == b""
    assert json.loads(files.manifest.read_bytes())["failures"] == {"invalid_json_line": 1, "line_too_long": 4}


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
def test_a_mistake_is_one_line(
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


def test_ctrl_c_during_the_start_is_quiet(files: Files) -> None:
    # As the signal does, at an import that takes long.
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
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (130, "")


def test_a_bad_setting_is_one_line(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DERENDER_MAX_LOGPROBS", "many")
    assert run(files) == 1
    assert capsys.readouterr().err.startswith("derender: DERENDER_MAX_LOGPROBS")


@pytest.mark.parametrize("number", ["0", "-1", "x"])
def test_there_is_at_least_one_worker(files: Files, capsys: pytest.CaptureFixture[str], number: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(files, "--workers", number)
    assert "--workers" in capsys.readouterr().err
