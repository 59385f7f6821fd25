"""Text of ids, at once and in pieces, and ids to try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from derender.decoding.detokenizer import detokenize, start
from tests.support.small_tokenizers import WORDS
from tests.support.vocabularies import B, S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.vocabulary import Vocabulary


__all__ = ["B_SPECIAL", "S_SPECIAL", "X", "bytes_ids", "cuts", "deltas", "pieces_ids", "text_of", "words"]

X: Final = S.BYTE
"""Byte N of a SentencePiece vocabulary is id X + N."""
B_SPECIAL: Final = {B.EOS, B.OTHER_EOS, B.PAD}
S_SPECIAL: Final = {S.UNK, S.BOS, S.EOS}

cuts = st.lists(st.integers(0, 4), max_size=30)
bytes_ids = st.lists(
    st.integers(0, B.SIZE - 1) | st.sampled_from([*B][:-1]) | st.integers(0x80, 0xFF), max_size=24
)
pieces_ids = st.lists(
    st.integers(0, S.SIZE - 1) | st.sampled_from([*S][:-1]) | st.integers(X + 0x80, X + 0xFF), max_size=24
)
words = st.lists(
    st.sampled_from([*WORDS, "!", "é", "中", "👩", " ", "<think>"]) | st.text(max_size=4), max_size=8
).map("".join)


def text_of(
    vocabulary: Vocabulary,
    token_ids: Sequence[int],
    *,
    prompt: Sequence[int] | None = None,
    skip: bool = True,
) -> str:
    state = start(vocabulary, prompt, skip_special_tokens=skip)
    return detokenize(vocabulary, state, token_ids, skip_special_tokens=skip)[0]


def deltas(
    vocabulary: Vocabulary,
    pieces: Sequence[Sequence[int]],
    *,
    prompt: Sequence[int] | None = None,
    skip: bool = True,
) -> list[str]:
    state = start(vocabulary, prompt, skip_special_tokens=skip)
    texts = []
    for piece in pieces:
        text, state = detokenize(vocabulary, state, piece, skip_special_tokens=skip)
        texts.append(text)
    return texts
