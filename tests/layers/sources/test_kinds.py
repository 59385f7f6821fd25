"""Sources are told apart by how they are written and by what exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from layer_compiler import LayerError
from layer_compiler.sources.kinds import find_kind

if TYPE_CHECKING:
    from pathlib import Path


def test_a_source_has_one_kind(tmp_path: Path) -> None:
    (tmp_path / "org" / "there").mkdir(parents=True)
    (tmp_path / "a.vocab").touch()
    kinds = {
        "s3://bucket/a": "s3",
        "org/there": "folder",
        str(tmp_path): "folder",
        "org/elsewhere": "hub",
        "Qwen/Qwen2.5-7B": "hub",
        "a.vocab": "compiled",
    }
    assert {source: find_kind(source, tmp_path) for source in kinds} == kinds


@pytest.mark.parametrize("source", ["missing", "./org/name", "/missing/folder", "a/b/c", "org/name@main", ""])
def test_anything_else_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(LayerError, match="no such folder"):
        find_kind(source, tmp_path)


@pytest.mark.parametrize("source", ["gone.vocab", "org/gone.vocab", "a/b/gone.vocab"])
def test_a_compiled_vocabulary_must_exist(tmp_path: Path, source: str) -> None:
    with pytest.raises(LayerError, match="no such file"):
        find_kind(source, tmp_path)


def test_a_compiled_vocabulary_is_not_fetched() -> None:
    with pytest.raises(LayerError, match="a compiled vocabulary is not fetched; copy it here"):
        find_kind("s3://bucket/a.vocab")


@pytest.mark.parametrize(
    "source",
    [
        *("a" * 5000, f"org/{'a' * 5000}", "a" * 300, f"s3://{'a' * 5000}", "/root\0", f"{'a/' * 2500}"),
        *(f"{'a' * 300}.vocab", f"{'a' * 5000}.vocab", "a\nb"),
    ],
)
def test_a_source_that_can_not_exist_is_refused_in_one_short_line(source: str) -> None:
    with pytest.raises(LayerError) as refusal:
        find_kind(source)
    message = str(refusal.value)
    assert message.startswith(repr(source)[:100])
    assert len(message) < 500
    assert message.isprintable()
