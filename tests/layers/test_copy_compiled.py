"""Without the compiler, `sam build` copies the vocabularies that models.toml lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from copy_compiled import CopyError, copy_compiled

if TYPE_CHECKING:
    from pathlib import Path

NEEDS: str = ": needs the compiler: run make setup, or set PYTHON to a Python that has it"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a layer's folder with a compiled vocabulary, and one to copy to."""
    (tmp_path / "tokenizer" / "default").mkdir(parents=True)
    (tmp_path / "tokenizer" / "default" / "Qwen3.vocab").write_bytes(b"compiled")
    (tmp_path / "out").mkdir()
    return tmp_path


def copy(folder: Path, text: str) -> dict[str, bytes]:
    models = folder / "tokenizer" / "models.toml"
    models.write_text(text)
    copy_compiled(models, folder / "out")
    return {path.name: path.read_bytes() for path in (folder / "out").iterdir()}


def test_any_toml_is_read(folder: Path) -> None:
    """Single quotes, one line, comments, absolute paths and paths out of the folder."""
    (folder / "beside.vocab").write_bytes(b"beside")
    (folder / "far away.vocab").write_bytes(b"far away")
    copied = copy(
        folder,
        "# source = 'no.vocab'\n"
        "model = [{name = 'org/a', aliases = ['x'], source = '../beside.vocab'}, "
        f"{{name = 'b', source = '{folder / 'far away.vocab'}'}}]\n",
    )
    assert copied == {"org--a.vocab": b"beside", "b.vocab": b"far away"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("licence = 'MIT'", f"model 1: 'licence'{NEEDS}"),
        ("alias = 'typo'", f"model 1: 'alias'{NEEDS}"),
        ("aliases = 'a'", f"model 1: aliases 'a'{NEEDS}"),
        ("[models]\na = 1", f"'models': unknown; a list holds [[model]] tables{NEEDS}"),
        ("[[model]]\nname = 'a'", f"model 2: source None{NEEDS}"),
        ("[[model]]\nname = 'a'\nsource = '../own'", f"model 2: source '../own'{NEEDS}"),
        ("[[model]]\nsource = 'default/Qwen3.vocab'", f"model 2: name None{NEEDS}"),
        ("[[model]]\nname = '../a'\nsource = 'default/Qwen3.vocab'", f"model 2: name '../a'{NEEDS}"),
        (f"[[model]]\nname = '{'a' * 300}'\nsource = 'default/Qwen3.vocab'", f"model 2: name '{'a' * 199}…"),
        ("[[model]]\nname = 'a'\nsource = 'gone.vocab'", f"model 2: source 'gone.vocab': no such file{NEEDS}"),
        ("[[model]]\nname = 'a'\nsource = 's3://b/x.vocab'", "model 2: source 's3://b/x.vocab': no such file"),
        (f"[[model]]\nname = 'a'\nsource = '{'a' * 300}.vocab'", "model 2: source 'aaa"),
        (
            "[[model]]\nname = 'Qwen3'\nsource = 'default/Qwen3.vocab'",
            "model 2: name: Qwen3.vocab is listed twice",
        ),
        ("[[model]", "can't be read: "),
        (f"a = {'[' * 5_000}{']' * 5_000}", "can't be read: "),
    ],
)
def test_anything_more_than_a_copy_is_refused(folder: Path, text: str, problem: str) -> None:
    with pytest.raises(CopyError) as refusal:
        copy(folder, f'[[model]]\nname = "Qwen3"\nsource = "default/Qwen3.vocab"\n{text}\n')
    assert str(refusal.value).startswith(f"{folder / 'tokenizer' / 'models.toml'}: {problem}")
    assert not list((folder / "out").iterdir())


@pytest.mark.parametrize(
    ("text", "problem"), [("", "lists no [[model]]"), ("model = [1]", f"model 1: not a table{NEEDS}")]
)
def test_a_list_without_models_is_refused(folder: Path, text: str, problem: str) -> None:
    with pytest.raises(CopyError) as refusal:
        copy(folder, text)
    assert str(refusal.value).endswith(f": {problem}")
