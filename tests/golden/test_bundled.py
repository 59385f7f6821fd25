"""The vocabulary that comes with the project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import layer_compiler
from derender.vocabulary import SUFFIX, read_manifest

if TYPE_CHECKING:
    from tests.conftest import TokenizerFolder

DEFAULT = Path(__file__).parents[2] / "layers" / "tokenizer" / "default"


def test_bundled_vocabulary_is_what_its_tokenizer_compiles_to(
    tokenizer: TokenizerFolder, tmp_path: Path
) -> None:
    (bundled,) = DEFAULT.glob(f"*{SUFFIX}")
    manifest = read_manifest(bundled)
    compiled, *_ = layer_compiler.build(
        tokenizer("qwen3"),
        manifest.name,
        tmp_path,
        licence=manifest.licence,
        origin=manifest.source,
        tool_call_parser=manifest.tool_call_parser,
        reasoning_parser=manifest.reasoning_parser,
    )
    assert compiled.name == bundled.name
    assert read_manifest(compiled) == manifest
    assert compiled.read_bytes() == bundled.read_bytes()
