"""Decode a complete output, as the proof and the check compare it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from derender.decoding.detokenizer import detokenize
from derender.decoding.state import DetokenizerState
from derender.decoding.utf8 import REPLACEMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.vocabulary import Vocabulary

__all__ = ["decode_output"]


def decode_output(
    vocabulary: Vocabulary, token_ids: Sequence[int], *, skip_special_tokens: bool = False
) -> tuple[str, str]:
    """Return the text of a complete output, and the incomplete character at its end.

    Libraries show an incomplete character as U+FFFD, under byte fallback once per byte.
    """
    text, state = detokenize(vocabulary, DetokenizerState(), token_ids, skip_special_tokens=skip_special_tokens)
    incomplete = state.pending
    if vocabulary.byte_tokens:
        return text, REPLACEMENT * len(incomplete)
    return text, incomplete.decode(errors="replace")
