"""What a build is given and what it says: compiled sources, lengths, folders, parsers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import layer_compiler
from derender.cli import main
from derender.vocabulary import MAX_LENGTH, VocabularyError, load
from layer_compiler import BuildError
from layer_compiler.building.layer import compile_layer
from layer_compiler.building.models_file import Model
from layer_compiler.building.restating import restate
from tests.support.small_tokenizers import byte_level_tokenizer, write_folder

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN: Final = "{% for message in messages %}{{ message.content }}{% endfor %}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(
        tmp_path / "source",
        byte_level_tokenizer(),
        tokenizer_config={"eos_token": "<|end|>", "chat_template": PLAIN},
        config={"vocab_size": 500},
        generation_config={"eos_token_id": [1, 2]},
    )


@pytest.fixture
def compiled(folder: Path, tmp_path: Path) -> Path:
    return layer_compiler.build(folder, "done", tmp_path).path


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., int]:
    """Build one source into `out`."""

    def run(source: Path | str, *flags: str) -> int:
        return main(["layer", "build", str(source), *flags, "--out", str(tmp_path / "out")])

    return run


# --- compiled sources -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("--name", "done")])
def test_a_compiled_source_is_taken_as_it_is(
    compiled: Path,
    tmp_path: Path,
    build: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
) -> None:
    assert build(compiled, *flags) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("taken as it is")
    assert "tokenizers library" not in printed.out
    assert printed.err == ""
    assert (tmp_path / "out" / "done.vocab").read_bytes() == compiled.read_bytes()


@pytest.mark.parametrize(
    "flag",
    [
        *("--tool-call-parser=hermes", "--tool-call-parser=auto", "--reasoning-parser=qwen3"),
        *("--max-model-len=99", "--licence=MIT", "--revision=sha256:0", "--source=x"),
    ],
)
def test_flags_that_do_not_apply_to_a_compiled_source_are_refused(
    compiled: Path, tmp_path: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert build(compiled, flag) == 1
    problem = capsys.readouterr().err
    assert problem.endswith(
        f"is compiled already; its parsers and limits are in it: no {flag.partition('=')[0]} beside it\n"
    )
    assert problem.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "source",
    ["gone.vocab", "org/gone.vocab", "s3://bucket/a.vocab", f"{'a' * 300}.vocab", f"{'a' * 5000}.vocab"],
)
def test_a_compiled_source_that_is_not_there_is_said_in_a_line(
    build: Callable[..., int], capsys: pytest.CaptureFixture[str], source: str
) -> None:
    assert build(source) == 1
    problem = capsys.readouterr().err
    assert problem.count("\n") == 1
    assert source[:20] in problem
    assert len(problem) < 500


# --- lengths --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, MAX_LENGTH + 1, 10**30])
def test_a_length_that_no_manifest_holds_is_refused(
    folder: Path, tmp_path: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str], length: int
) -> None:
    assert build(folder, "--name", "a", "--max-model-len", str(length)) == 1
    assert capsys.readouterr().err == "derender: max_model_len: from 1 on, and 9,007,199,254,740,992 at most\n"
    with pytest.raises(BuildError, match="max_model_len: from 1 on"):
        compile_layer([Model(name="a", source=str(folder), max_model_len=length)], tmp_path / "out")


def test_the_longest_length_is_kept(folder: Path, tmp_path: Path, build: Callable[..., int]) -> None:
    assert build(folder, "--name", "a", "--max-model-len", str(MAX_LENGTH)) == 0
    path = tmp_path / "out" / "a.vocab"
    vocabulary = load(path)
    assert vocabulary.manifest.max_model_len == MAX_LENGTH
    with pytest.raises(VocabularyError):
        restate(path, vocabulary, max_model_len=MAX_LENGTH + 1)


# --- folders --------------------------------------------------------------------------------------------------


def test_a_build_that_fails_leaves_no_new_folders(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(BuildError):
        compile_layer([Model(name="a", source="./gone")], tmp_path / "there" / "new" / "out")
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


def test_make_layer_keeps_the_last_good_layer_where_a_build_fails(tmp_path: Path) -> None:
    makefile = Path(__file__).parents[2] / "Makefile"
    command = tmp_path / ".venv" / "bin" / "derender"
    command.parent.mkdir(parents=True)
    (command.parent / ".made").touch()
    (tmp_path / "pyproject.toml").touch()
    (command.parent / ".made").touch()

    def make(script: str) -> int:
        command.write_text(f"#!/bin/sh\nfor out; do :; done\nmkdir -p $out\n{script}\n")
        command.chmod(0o755)
        return subprocess.run(
            ["make", "-f", str(makefile), "layer"], cwd=tmp_path, check=False, capture_output=True
        ).returncode

    def there() -> list[str]:
        return [path.name for path in (tmp_path / "build" / "layer").iterdir()]

    assert make("touch $out/good.vocab") == 0
    assert there() == ["good.vocab"]
    assert make("touch $out/half.vocab; exit 1") != 0
    assert there() == ["good.vocab"]
    assert make("touch $out/new.vocab") == 0
    assert there() == ["new.vocab"]


# --- what is said ---------------------------------------------------------------------------------------------


def test_inspect_names_each_origin_once(
    folder: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(folder, "--name", "a") == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  end of text"))
    assert line.count("tokenizer_config.json: eos_token") == 1
    assert line.count("generation_config.json: eos_token_id") == 1


def test_where_a_parser_is_given_only_the_other_is_said_to_be_none(
    tmp_path: Path, build: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    # What its files tell needs tokens that the vocabulary does not have.
    thinking = "{{ '<think>' + message.reasoning_content + '</think>' }}<think>"
    folder = write_folder(
        tmp_path / "source",
        byte_level_tokenizer(),
        tokenizer_config={"response_template": {"fields": {"content": {}}}, "chat_template": thinking},
    )
    assert build(folder, "--name", "a", "--tool-call-parser", "hermes") == 0
    printed = capsys.readouterr()
    assert "tools hermes, reasoning none" in printed.out
    assert "no parser is chosen" not in printed.err
    assert "reasoning_parser: none is chosen: what the model's files tell of can't be used" in printed.err
