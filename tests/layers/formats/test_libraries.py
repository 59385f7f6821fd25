"""A tokenizer that its format's own library refuses is refused."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.layers.builds import refuse_folder
from tests.layers.model_folders import sentence_piece_folder, tekken_folder, tiktoken_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("make", "module", "name", "library"),
    [
        (sentence_piece_folder, "sentencepiece", "SentencePieceProcessor", "sentencepiece"),
        (tiktoken_folder, "tiktoken", "Encoding", "tiktoken"),
        (tekken_folder, "mistral_common.tokens.tokenizers.tekken", "Tekkenizer", "mistral-common"),
    ],
)
def test_what_a_library_refuses_is_refused_with_its_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], Path],
    module: str,
    name: str,
    library: str,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("a reason\nand a trace")

    __import__(module)
    loaded = sys.modules[module]
    monkeypatch.setattr(loaded, name, refuse)
    assert f"{library} refuses it: a reason" in refuse_folder(make(tmp_path))
