"""The tokenizer layer that `sam build` packages: its makefile, run as SAM runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import layer_compiler
from derender.vocabulary import load
from tests.support.small_tokenizers import byte_level_tokenizer, sentence_piece_tokenizer, write_folder

LAYER: Final = Path(__file__).parents[2] / "layers" / "tokenizer"
NO_PYTHON: Final = "false"
"""A program that stands for a missing Python."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without an environment, whose layer bundles a small vocabulary. Its path has a space."""
    root = tmp_path_factory.mktemp("layer")
    folder = root / "project" / "layers" / "tokenizer"
    folder.mkdir(parents=True)
    for name in ("Makefile", "models.toml", "copy_compiled.py"):
        shutil.copy(LAYER / name, folder)
    compiled = write_folder(root / "bundled", byte_level_tokenizer())
    layer_compiler.build(compiled, "Qwen3", folder / "default")
    write_folder(root / "project" / "models" / "own", sentence_piece_tokenizer(strip=True))
    return root / "project"


@pytest.fixture
def source(project: Path, tmp_path: Path) -> Path:
    """The layer's folder in a copy of the project."""
    return shutil.copytree(project, tmp_path / "the project") / "layers" / "tokenizer"


def make(
    source: Path, python: str = sys.executable, path: str = os.environ["PATH"]
) -> subprocess.CompletedProcess[str]:
    """Build in a copy of the folder with the makefile of the original."""
    work = source.parents[2] / "scratch"
    shutil.copytree(source, work, dirs_exist_ok=True)
    return subprocess.run(
        ["make", "--makefile", source / "Makefile", "build-TokenizerLayer"],
        cwd=work,
        env={
            **os.environ,
            "ARTIFACTS_DIR": str(source.parents[2] / "artifacts"),
            "PYTHON": python,
            "PATH": path,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def made(source: Path) -> dict[str, bytes]:
    """Return the files of the built layer."""
    folder = source.parents[2] / "artifacts"
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("python", [sys.executable, NO_PYTHON])
def test_the_bundled_vocabulary_is_packaged_with_and_without_the_compiler(source: Path, python: str) -> None:
    done = make(source, python)
    assert done.returncode == 0, done.stderr
    assert made(source) == {"tokenizer/Qwen3.vocab": (source / "default" / "Qwen3.vocab").read_bytes()}


def list_own(source: Path) -> None:
    """Add a model whose source is outside of the folder to the list."""
    with (source / "models.toml").open("a", encoding="utf-8") as file:
        file.write('[[model]]\nname = "own"\nsource = "../../models/own"\n')


def test_sources_are_relative_to_the_list(source: Path) -> None:
    list_own(source)
    done = make(source)
    assert done.returncode == 0, done.stderr
    assert sorted(made(source)) == ["tokenizer/Qwen3.vocab", "tokenizer/own.vocab"]
    own = source.parents[2] / "artifacts" / "tokenizer" / "own.vocab"
    assert load(own).manifest.rule == "byte-fallback"


def test_a_source_that_is_not_compiled_needs_the_compiler(source: Path) -> None:
    list_own(source)
    done = make(source, NO_PYTHON)
    assert done.returncode != 0
    message, *of_make = done.stderr.splitlines()
    assert message.startswith(
        f"{source / 'models.toml'}: model 2: source '../../models/own': needs the compiler"
    )
    assert all(line.startswith("make: ") for line in of_make)
    assert not any(made(source))


def test_without_a_python_that_reads_toml_the_build_fails_with_one_line(source: Path) -> None:
    programs = source.parents[2] / "programs"
    programs.mkdir()
    for name in ("sh", "mkdir", "cp", "false"):
        (programs / name).symlink_to(str(shutil.which(name)))
    make_ = Path(str(shutil.which("make")))
    (programs / "make").symlink_to(make_)
    done = make(source, NO_PYTHON, str(programs))
    assert done.returncode != 0
    message, *of_make = done.stderr.splitlines()
    assert message.startswith(
        "models.toml needs Python 3.11 or newer, which this machine lacks: run make setup"
    )
    assert all(line.startswith("make: ") for line in of_make)


def test_an_invalid_list_fails_the_build(source: Path) -> None:
    (source / "models.toml").write_text('[[model]]\nname = "own"\n')
    done = make(source)
    assert done.returncode != 0
    assert "models.toml: own: source: Field required" in done.stderr


def test_compiled_vocabularies_in_layer_replace_the_list(source: Path) -> None:
    list_own(source)
    (source / "layer").mkdir()
    (source / "layer" / "a.vocab").write_bytes(b"compiled")
    done = make(source, NO_PYTHON)
    assert done.returncode == 0, done.stderr
    assert "instead of the models in models.toml" in done.stdout
    assert made(source) == {"tokenizer/a.vocab": b"compiled"}
