"""Added tokens, and the bundled vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.vocabulary import (
    MAX_SIZE,
    Manifest,
    Vocabulary,
    dump,
)
from tests.support.small_tokenizers import metaspace_tokenizer, word_piece_tokenizer
from tests.support.vocabularies import library, loaded, vocabulary

from .manifests import manifests

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenizers import Tokenizer

    from derender.vocabulary import Rule


@pytest.mark.parametrize(
    ("pieces", "added", "texts"),
    [
        pytest.param([b"Hello", b"<think>", b"<end>"], (1, 2), {"<think>": 1, "<end>": 2}, id="some"),
        pytest.param([b"Hello"], (), {}, id="none"),
        pytest.param(
            ["größe ∞".encode(), b" <a> ", b"\n"], (0, 1, 2), {"größe ∞": 0, " <a> ": 1, "\n": 2}, id="text"
        ),
        pytest.param([b"", b"\xff", b"\xe2\x88", b"<a>"], (0, 1, 2, 3), {"<a>": 3}, id="empty, no UTF-8"),
        pytest.param([b"<a>", b"<b>", b"<a>", b"<a>"], (1, 2, 3), {"<b>": 1, "<a>": 2}, id="one text twice"),
        pytest.param([b"<b>", b"<a>", b"<a>"], (2, 1), {"<a>": 1}, id="not sorted"),
        pytest.param([b"<a>"], (0, 1, MAX_SIZE - 1), {"<a>": 0}, id="beyond the vocabulary"),
    ],
)
@pytest.mark.parametrize("rule", ["byte-level", "byte-fallback"])
def test_added_tokens_are_found_by_text(
    rule: Rule, pieces: list[bytes], added: tuple[int, ...], texts: dict[str, int]
) -> None:
    assert vocabulary(pieces, rule, added_token_ids=added).added_tokens() == texts


@pytest.mark.parametrize("strip", [True, False])
def test_added_tokens_keep_their_leading_space(*, strip: bool) -> None:
    spaced = vocabulary([b" <a>", b"<b>"], "byte-fallback", added_token_ids=(0, 1), strip_leading_space=strip)
    assert spaced.added_tokens() == {" <a>": 0, "<b>": 1}


@pytest.mark.parametrize("make", [metaspace_tokenizer, word_piece_tokenizer])
def test_added_tokens_of_the_library_are_found(make: Callable[[], Tokenizer]) -> None:
    tokenizer = make()
    added = {token.content: n for n, token in tokenizer.get_added_tokens_decoder().items()}
    assert added
    assert library(tokenizer, added_token_ids=tuple(sorted(added.values()))).added_tokens() == added


@given(about=manifests, pieces=st.lists(st.binary(max_size=3), min_size=1, max_size=20))
def test_added_tokens_of_any_manifest_are_found(about: Manifest, pieces: list[bytes]) -> None:
    added = tuple(range(len(pieces)))
    about = msgspec.structs.replace(about, size=len(pieces), added_token_ids=added)
    texts = loaded(dump(about, pieces)).added_tokens()
    assert all(pieces[token_id] == text.encode() for text, token_id in texts.items())
    assert all(piece not in pieces[:n] for n, piece in enumerate(pieces) if n in texts.values())


def test_the_bundled_vocabulary_knows_its_ids(bundled: Vocabulary) -> None:
    known = {
        0: b"!",
        11: b",",
        1879: b" world",
        5691: "\ufffd".encode(),
        9707: b"Hello",
        102356: "東".encode(),
        151643: b"<|endoftext|>",
        151645: b"<|im_end|>",
        151668: b"</think>",
    }
    assert {token_id: bundled.pieces[token_id] for token_id in known} == known
    about = bundled.manifest
    assert about.rule == "byte-level"
    assert about.eos_token_id == 151645
    assert about.stop_token_ids == (151643, 151645)
    assert {151643, 151645} <= bundled.special
    assert not {151657, 151658, 151667, 151668} & bundled.special
    assert about.added_token_ids == tuple(range(151643, 151669))
    assert (about.tool_call_parser, about.reasoning_parser) == ("hermes", "qwen3")


def test_the_bundled_vocabulary_knows_its_markers(bundled: Vocabulary) -> None:
    texts = bundled.added_tokens()
    assert len(texts) == 26
    markers = {"<tool_call>": 151657, "</tool_call>": 151658, "<think>": 151667, "</think>": 151668}
    assert markers.items() <= texts.items()


def test_the_bundled_vocabulary_pads_up_to_the_embedding_rows(bundled: Vocabulary) -> None:
    assert bundled.manifest.size == 151936
    assert bundled.manifest.named == 151669
    assert all(bundled.pieces[token_id] for token_id in range(151669))
    assert not any(bundled.pieces[token_id] for token_id in range(151669, 151936))
