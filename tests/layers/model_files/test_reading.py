"""Files are read within limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from layer_compiler import LayerError
from layer_compiler.model_files import reading
from layer_compiler.model_files.model_config import read_configuration
from layer_compiler.model_files.reading import read_file, read_json

if TYPE_CHECKING:
    from pathlib import Path

BAD_JSON = {
    "empty": b"",
    "cut short": b"{",
    "two values": b"{} {}",
    "a list": b"[]",
    "null": b"null",
    "a number": b"1",
    "a string": b'"text"',
    "not UTF-8": b"\xff\xfe",
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 200_000,
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
}


@pytest.mark.parametrize("content", BAD_JSON.values(), ids=BAD_JSON)
def test_anything_but_a_json_object_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(LayerError) as error:
        read_json(path)
    assert str(error.value).startswith(f"{path}: ")


@pytest.mark.parametrize("name", ["tokenizer_config", "generation_config", "config"])
def test_a_malformed_configuration_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.json").write_text("[]")
    with pytest.raises(LayerError, match=rf"{name}\.json: not a JSON object"):
        read_configuration(tmp_path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LayerError, match="can't be read"):
        read_file(tmp_path / "tokenizer.json")


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "template.jinja"
    path.write_bytes(b"x" * (1 << 20))
    assert len(read_file(path, 1 << 20)) == 1 << 20
    with path.open("ab") as file:
        file.write(b"x")
    with pytest.raises(LayerError, match="larger than 1 MB"):
        read_file(path, 1 << 20)


def test_many_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_VALUES", 3)
    path = tmp_path / "config.json"
    path.write_text('{"a": [1]}')
    assert read_json(path) == {"a": [1]}
    path.write_text('{"a": [1, 2, 3]}')
    with pytest.raises(LayerError, match="more than 3 values"):
        read_json(path)
