"""The rule "byte-level": the ids' bytes are joined and decoded as UTF-8."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from .state import MAX_PENDING, DetokenizerState
from .utf8 import continues, ends_character

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.vocabulary import Vocabulary

__all__ = ["decode", "pending_text"]


def decode(
    vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], skip_special_tokens: bool
) -> tuple[str, DetokenizerState]:
    """Decode the next ids of an output."""
    pieces = vocabulary.visible_pieces if skip_special_tokens else vocabulary.pieces
    data = state.pending + b"".join(map(pieces.__getitem__, token_ids))
    prompt_bytes = state.prompt_bytes if state.prompt_bytes and continues(state.prompt_bytes, data) else b""
    data = prompt_bytes + data
    end, text, pending = len(data), "", state.pending
    for place in range(len(token_ids), 0, -1):
        if ends_character(data[max(end - 4, 0) : end]):
            text, prompt_bytes, pending = data[:end].decode(errors="replace"), b"", b""
            token_ids = token_ids[place:]
            break
        end -= len(pieces[token_ids[place - 1]])
    else:
        end = len(prompt_bytes)
    if len(data) - end <= MAX_PENDING:
        return text, DetokenizerState(prompt_bytes=prompt_bytes, pending=data[end:])
    for token_id in token_ids:
        pending += pieces[token_id]
        if len(pending) > MAX_PENDING:
            more, end = codecs.utf_8_decode(prompt_bytes + pending, "replace", False)
            text, prompt_bytes, pending = text + more, b"", (prompt_bytes + pending)[end:]
    return text, DetokenizerState(prompt_bytes=prompt_bytes, pending=pending)


def pending_text(_: Vocabulary, state: DetokenizerState) -> str:
    """Return the text of what is held."""
    return (state.prompt_bytes + state.pending).decode(errors="replace")
