"""Build a folder, or be refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from derender.vocabulary import Vocabulary, load
from layer_compiler import LayerError, build
from layer_compiler.decoding import decode_output

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["build_folder", "decode_text", "refuse_folder"]


def build_folder(folder: Path) -> Vocabulary:
    """Compile a folder, and load the vocabulary."""
    return load(build(folder, "tiny", folder / "out").path)


def refuse_folder(folder: Path, name: str = "tiny") -> str:
    """Return why a folder is refused, in one line. Nothing may be written."""
    out = folder.parent / "refused"
    with pytest.raises(LayerError) as error:
        build(folder, name, out)
    assert not list(out.glob("*"))
    assert str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


def decode_text(vocabulary: Vocabulary, token_ids: Sequence[int], *, skip: bool = True) -> str:
    """Return a whole output's text."""
    return "".join(decode_output(vocabulary, token_ids, skip_special_tokens=skip))
