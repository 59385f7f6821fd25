"""The proof finds a vocabulary that decodes differently than its library."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

import pytest

from derender.decoding import detokenizer
from derender.vocabulary import load
from layer_compiler import LayerError, build
from layer_compiler.building import proof as proof_module
from layer_compiler.formats.parsed import ReferenceLibrary
from tests.layers.model_folders import sentence_piece_folder, tekken_folder, tiktoken_folder
from tests.support.compiled import compile_small
from tests.support.small_tokenizers import SMALL_TOKENIZERS, byte_level_tokenizer, write_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from derender.decoding.state import DetokenizerState
    from derender.vocabulary import Vocabulary

FOLDERS: dict[str, Callable[[Path], Path]] = {
    "tokenizers": lambda folder: write_folder(folder, byte_level_tokenizer()),
    "mistral-common": tekken_folder,
    "tiktoken": tiktoken_folder,
    "sentencepiece": sentence_piece_folder,
}


@pytest.mark.parametrize("library", FOLDERS)
def test_the_proof_counts_what_was_compared_with_which_library(tmp_path: Path, library: str) -> None:
    proof = build(FOLDERS[library](tmp_path), "tiny", tmp_path / "out").proof
    assert proof is not None
    assert proof.library == library
    assert proof.ids > 256
    assert proof.texts > 0
    assert proof.sequences > 0


@pytest.mark.parametrize("library", FOLDERS)
def test_a_wrong_piece_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    formats = sys.modules["layer_compiler.formats"]
    genuine = formats.add_configuration

    def change_a_piece(tokenizer: object, configuration: object) -> object:
        model = genuine(tokenizer, configuration)
        model.pieces[260] += b"x"
        return model

    monkeypatch.setattr(formats, "add_configuration", change_a_piece)
    assert f"but {library} decodes them to" in refuse(FOLDERS[library](tmp_path))


@pytest.mark.parametrize("name", ["byte-level", "spacing", "stripping"])
def test_special_tokens_that_are_not_skipped_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def load_without_skipping(path: Path) -> Vocabulary:
        vocabulary = load(path)
        vocabulary.visible_pieces = vocabulary.pieces
        return vocabulary

    monkeypatch.setattr("layer_compiler.building.vocabulary.load", load_without_skipping)
    assert "decode to" in refuse(write_folder(tmp_path, SMALL_TOKENIZERS[name]()))


def test_an_output_that_pieces_change_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_state(
        vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], **options: bool
    ) -> tuple[str, DetokenizerState]:
        return detokenizer.detokenize(vocabulary, type(state)(), token_ids, **options)

    monkeypatch.setattr(proof_module, "detokenize", forget_state)
    monkeypatch.setattr(proof_module, "_compare_continuation", lambda *_: None)
    assert "but in pieces to" in refuse(write_folder(tmp_path, byte_level_tokenizer()))


def test_an_output_that_does_not_continue_its_prompt_is_found() -> None:
    class OtherLibrary(ReferenceLibrary):
        name = "other"

        def encode(self, text: str) -> list[list[int]]:
            return [[len(text)]]

        def decode(self, token_ids: Sequence[int]) -> str:
            return f"another text of {len(token_ids)} ids"

    vocabulary, tokenizer = compile_small("byte-level")
    ids = tokenizer.encode("Hello world").ids
    with pytest.raises(LayerError, match=r"^ids \[.*\] after \[.*decode to .*, but other decodes them to"):
        proof_module._compare_continuation(random.Random(1), vocabulary, OtherLibrary(), ids)


def refuse(folder: Path) -> str:
    """Return why the proof fails. Nothing may be written."""
    with pytest.raises(LayerError, match=r"^ids \[") as error:
        build(folder, "tiny", folder / "out")
    assert not list(folder.glob("out/*"))
    return str(error.value)
