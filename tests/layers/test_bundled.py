"""The vocabulary that ships with the project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from derender.vocabulary import SUFFIX, read_manifest, replace_manifest
from tests.support.paths import BUNDLED

if TYPE_CHECKING:
    from tests.conftest import LayerFolder


def test_the_bundled_vocabulary_is_what_its_tokenizer_compiles_to(layer: LayerFolder) -> None:
    (bundled,) = BUNDLED.glob(f"*{SUFFIX}")
    (compiled,) = layer("qwen3").glob(f"*{SUFFIX}")
    manifest, expected = read_manifest(bundled), read_manifest(compiled)
    given = {"name", "licence", "source", "tool_call_parser", "reasoning_parser"}
    for field in set(manifest.__struct_fields__) - given:
        assert getattr(manifest, field) == getattr(expected, field), field
    assert replace_manifest(compiled.read_bytes(), manifest) == bundled.read_bytes()
