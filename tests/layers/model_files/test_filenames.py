"""Which files of a model's folder are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from layer_compiler import LayerError
from layer_compiler.formats import FORMATS
from layer_compiler.model_files.filenames import is_model_file, list_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tokenizer.json", True),
        ("tokenizer.model.v3", True),
        ("mistral_instruct_tokenizer_240323.model.v3", True),
        ("mistral_instruct_tokenizer_241114.model.v7m1", True),
        ("tokenizer.model.v3.safetensors", False),
        ("additional_chat_templates/tool_use.jinja", True),
        ("additional_chat_templates/../tool_use.jinja", False),
        ("additional_chat_templates/a/tool_use.jinja", False),
        ("additional_chat_templates/..\\tool_use.jinja", False),
        ("additional_chat_templates/tool_use.py", False),
        ("additional_chat_templates/tokenizer.json", False),
        ("qwen.tiktoken", True),
        ("model.safetensors", False),
        ("tokenization.py", False),
        ("../tokenizer.model", False),
        ("..\\tokenizer.model", False),
        ("/etc/tokenizer.model", False),
        ("a\0.model", False),
        ("", False),
    ],
)
def test_only_names_of_model_files_are_read(name: str, expected: bool) -> None:
    assert is_model_file(name) is expected


@pytest.mark.parametrize("name", ["tekken_240911.json", "a.tiktoken", "tokenizer.model.v3", "a.model.v7m1"])
def test_each_name_that_a_format_finds_is_read(tmp_path: Path, name: str) -> None:
    assert is_model_file(name)
    assert any(format_.find(tmp_path, [name]) for format_ in FORMATS)


@pytest.mark.parametrize("name", ["tekken_old.json.bak", "a.model.v3.bak", "a.model.v1000", "a.tiktoken.gz"])
def test_no_format_finds_a_name_that_is_not_read(tmp_path: Path, name: str) -> None:
    assert not is_model_file(name)
    assert not any(format_.find(tmp_path, [name]) for format_ in FORMATS)


def test_files_are_listed_in_order_without_folders_and_others(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "config.json", "notes.txt", "additional_chat_templates/a.jinja"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "params.json").mkdir()
    assert list_files(tmp_path) == ["additional_chat_templates/a.jinja", "config.json", "tokenizer.json"]


@pytest.mark.parametrize("path", ["missing", "file", "no\0path"])
def test_a_folder_that_can_not_be_read_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("{}")
    with pytest.raises(LayerError, match="can't be read"):
        list_files(tmp_path / path)
