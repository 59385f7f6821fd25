"""A model's files are fetched into a folder, and may be pinned to a digest."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from layer_compiler import LayerError
from layer_compiler.sources.fetch import digest_files, fetch_model

from .files import READ

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_is_used_where_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "own"
    folder.mkdir(parents=True)
    with fetch_model("models/own", base=tmp_path) as model:
        assert (model.folder, model.source, model.revision) == (folder, "own", None)


def test_a_folder_may_be_pinned_to_its_content(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    (tmp_path / "notes.txt").write_bytes(b"not read")
    with (
        pytest.raises(LayerError, match="its files have the digest sha256:") as refusal,
        fetch_model(str(tmp_path), "sha256:0"),
    ):
        pass
    digest = str(refusal.value).split("the digest ")[1].split(",")[0]
    (tmp_path / "notes.txt").write_bytes(b"changed")
    with fetch_model(str(tmp_path), digest) as model:
        assert model.revision == digest
    (tmp_path / "tokenizer.json").write_bytes(b"{ }")
    with pytest.raises(LayerError), fetch_model(str(tmp_path), digest):
        pass


@pytest.mark.parametrize("name", READ)
def test_a_digest_covers_each_file_that_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    before = digest_files(tmp_path)
    path.write_bytes(b"one")
    one = digest_files(tmp_path)
    path.write_bytes(b"two")
    assert len({before, one, digest_files(tmp_path)}) == 3


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LayerError, match="file: can't be read"), fetch_model("file", "sha256:0", base=tmp_path):
        pass


@pytest.mark.parametrize(("source", "module"), [("org/model", "huggingface_hub"), ("s3://models/a", "boto3")])
def test_a_missing_package_is_named_with_its_extra(
    source: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with (
        pytest.raises(LayerError, match=rf"{source}: needs {module}: pip install 'derender\[build\]'"),
        fetch_model(source),
    ):
        pass
