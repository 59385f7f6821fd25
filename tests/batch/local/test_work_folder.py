"""Work folders: jobs that go on, start over, or are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from derender.batch.local.paths import locate_outputs
from derender.batch.local.work_folder import write_outputs
from derender.batch.steps.record import Record, measure
from derender.vocabulary import dump
from tests.batch.inputs import line
from tests.support.vocabularies import manifest

from .files import Files, derender_first_piece, open_work_folder, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from derender.batch.job import Job
    from derender.batch.local.paths import OutputPaths
    from derender.batch.steps.manifest import Manifest


def test_a_finished_piece_is_not_derendered_again(files: Files) -> None:
    files.source.write_bytes(line())
    piece = derender_first_piece(files)
    (path,) = (files.work / "records").iterdir()
    piece.write_bytes(piece.read_bytes().replace(b"Hello", b"Salve"))
    record = msgspec.json.decode(path.read_bytes(), type=Record)
    changed = replace(record, results=measure(piece.read_bytes())).signed()
    path.write_bytes(msgspec.json.encode(changed))
    assert run(files) == 0
    assert b"Salve" in files.results.read_bytes()


@pytest.mark.parametrize("kind", ["results", "errors", "records"])
def test_a_changed_byte_is_seen(files: Files, kind: str) -> None:
    derender_first_piece(files)
    whole = {
        each: b"".join(map(Path.read_bytes, (files.work / each).iterdir())) for each in ("results", "errors")
    }
    (path,) = (files.work / kind).iterdir()
    content = path.read_bytes()
    place = next(place for place, byte in enumerate(content) if chr(byte).isdigit())
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    assert run(files) == 0
    results, errors, manifest = files.outputs
    # Later, an answer is refused as a duplicate.
    assert whole["results"].startswith(results[: results.index(b"\n")])
    assert set(errors.splitlines()) > set(whole["errors"].splitlines())
    assert json.loads(manifest)["counts"] == {"total": 5, "completed": 2, "failed": 3}


@pytest.mark.parametrize("kind", ["results", "errors"])
def test_a_byte_that_changes_before_the_end_is_seen(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def change(job: Job, paths: OutputPaths) -> Manifest:
        (path,) = (files.work / kind).iterdir()
        path.write_bytes(path.read_bytes().replace(b"batch_req", b"Batch_req", 1))
        return write_outputs(job, paths)

    monkeypatch.setattr("derender.batch.local.command.write_outputs", change)
    assert run(files) == 1
    assert "is missing or was changed: start over" in capsys.readouterr().err
    assert not files.results.exists()


@pytest.mark.parametrize("content", [None, b"", b"{}\n"])
@pytest.mark.parametrize("kind", ["results", "errors", "records"])
def test_a_damaged_piece_is_derendered_again(files: Files, kind: str, content: bytes | None) -> None:
    piece = derender_first_piece(files)
    (path,) = (files.work / kind).iterdir()
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert run(files) == 0
    assert not piece.exists()
    results, errors, _ = files.outputs
    assert (results + errors).count(b"\n") == 5


@pytest.mark.parametrize("name", ["notes.txt", "000000000000009.json"])
def test_a_file_that_is_no_record_is_one_line(
    files: Files, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    derender_first_piece(files)
    (files.work / "records" / name).write_bytes(b"\xff{")
    assert run(files) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(f"derender: {files.work}/records/{name} is no record of a piece: ")
    assert run(files, "--restart") == 0


def test_restart_forgets_finished_pieces(files: Files) -> None:
    files.source.write_bytes(line())
    piece = derender_first_piece(files)
    piece.write_bytes(b"")
    assert run(files, "--restart") == 0
    assert b"Hello" in files.results.read_bytes()


def test_a_job_may_be_moved(files: Files, tmp_path: Path) -> None:
    derender_first_piece(files)
    moved = Files(tmp_path / "there" / "in.jsonl", *locate_outputs(tmp_path / "there" / "out.jsonl"))
    moved.work.parent.mkdir()
    shutil.move(files.source, moved.source)
    shutil.move(files.work, moved.work)
    assert run(moved) == 0
    assert json.loads(moved.manifest.read_bytes())["counts"]["total"] == 5


@pytest.mark.parametrize("gone", ["records", "results", "errors"])
def test_a_job_that_died_while_removing_its_pieces_goes_on(
    files: Files, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    class Killed(BaseException):
        pass

    remove = shutil.rmtree

    def remove_some(path: Path, **options: Any) -> None:
        remove(path, **options)
        if str(path).rstrip("/").endswith(gone):
            raise Killed

    open_work_folder(files)
    job = (files.work / "job.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("derender.batch.local.work_folder.shutil.rmtree", remove_some)
        with pytest.raises(Killed):
            run(files)
    made = files.outputs
    assert (files.work / "job.json").read_bytes() == job
    assert run(files) == 0
    assert files.outputs == made
    assert not files.work.exists()


def change_input(files: Files) -> None:
    files.source.write_bytes(line() * 2)


def change_version(files: Files) -> None:
    path = files.work / "job.json"
    path.write_bytes(path.read_bytes().replace(b'"version":"', b'"version":"0.'))


def make_other_layer(folder: Path) -> Path:
    layer = folder / "layer"
    layer.mkdir(exist_ok=True)
    (layer / "tiny.vocab").write_bytes(dump(manifest(name="tiny"), [b"Hi", b"!", b"</s>"]))
    return layer


@pytest.mark.parametrize(
    ("change", "environment", "problem"),
    [
        (change_input, {}, "another input"),
        (change_version, {}, "another version"),
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
    derender_first_piece(files)
    if change:
        change(files)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(layer=make_other_layer(tmp_path)))
    before = sorted(files.work.rglob("*"))
    assert run(files) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"derender: {files.work} was made with {problem}: ")
    assert "--restart" in told
    assert sorted(files.work.rglob("*")) == before
    assert run(files, "--restart") == 0


@pytest.mark.parametrize("options", [(), ("--restart",)])
def test_a_partly_removed_work_folder_starts_over(files: Files, options: tuple[str, ...]) -> None:
    derender_first_piece(files)
    (files.work / "job.json").unlink()
    (files.work / ".unfinished-1-1-job.json").touch()
    assert run(files, *options) == 0
    assert json.loads(files.manifest.read_bytes())["counts"]["total"] == 5
    assert not files.work.exists()


@pytest.mark.parametrize("options", [(), ("--restart",)])
@pytest.mark.parametrize("name", ["thesis.txt", "results/1.txt", "results.jsonl", "job.json"])
def test_a_folder_that_is_no_work_folder_is_left_alone(
    files: Files, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], name: str
) -> None:
    path = files.work / name
    path.parent.mkdir(parents=True)
    path.write_text("all of it")
    assert run(files, *options) == 1
    assert f"{files.work} is no work folder" in capsys.readouterr().err
    assert path.read_text() == "all of it"


@pytest.mark.parametrize("options", [(), ("--restart",)])
def test_a_file_of_somebody_else_stays_in_a_work_folder(files: Files, options: tuple[str, ...]) -> None:
    derender_first_piece(files)
    path = files.work / "thesis.txt"
    path.write_text("all of it")
    assert run(files, *options) == 0
    assert [*files.work.iterdir()] == [path]


def test_an_empty_folder_becomes_the_work_folder(files: Files) -> None:
    files.work.mkdir()
    (files.work / ".unfinished-1-1-.derender-batch").touch()
    assert run(files) == 0
    assert not files.work.exists()


def test_a_damaged_job_starts_over_if_asked(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    open_work_folder(files)
    (files.work / "job.json").write_bytes(b"{")
    assert run(files) == 1
    assert capsys.readouterr().err == f"derender: {files.work} can't be read: start over with --restart\n"
    assert run(files, "--restart") == 0
