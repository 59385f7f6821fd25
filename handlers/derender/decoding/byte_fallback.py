"""The rule "byte-fallback": SentencePiece, where some ids are single bytes of a character that has no id."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from .state import MAX_PENDING, DetokenizerState
from .utf8 import REPLACEMENT, continues, decode_valid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from derender.vocabulary import Vocabulary

__all__ = ["decode", "pending_text"]


def decode(
    vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], skip_special_tokens: bool
) -> tuple[str, DetokenizerState]:
    """Decode the next ids of an output."""
    pieces = vocabulary.visible_pieces if skip_special_tokens else vocabulary.pieces
    text, prompt_bytes, pending = _decode_runs(vocabulary, state, token_ids, pieces)
    started = state.text_started or bool(text or pending)
    if vocabulary.manifest.strip_leading_space and not state.text_started:
        text = text.removeprefix(" ")
    if len(pending) > MAX_PENDING:
        # In a run of byte tokens whose first byte fits no character, each byte is one U+FFFD.
        text += REPLACEMENT * (len(pending) - MAX_PENDING)
        pending = b"\xff" * MAX_PENDING
    return text, DetokenizerState(text_started=started, prompt_bytes=prompt_bytes, pending=pending)


def pending_text(_: Vocabulary, state: DetokenizerState) -> str:
    """Return the text of what is held."""
    return REPLACEMENT * len(state.pending)


def _decode_runs(
    vocabulary: Vocabulary, state: DetokenizerState, token_ids: Sequence[int], pieces: Mapping[int, bytes]
) -> tuple[str, bytes, bytes]:
    """Return the text, the bytes that the prompt begins, and the bytes that are held."""
    if not state.prompt_bytes:
        try:
            # Other tokens contain whole characters, so all bytes are UTF-8 if every run of byte tokens is.
            return (state.pending + b"".join(map(pieces.__getitem__, token_ids))).decode(), b"", b""
        except UnicodeDecodeError:
            pass
    parts: list[str] = []
    prompt_bytes, pending = state.prompt_bytes, state.pending
    for are_bytes, ids in groupby(token_ids, vocabulary.byte_tokens.__contains__):
        data = b"".join(map(pieces.__getitem__, ids))
        if are_bytes:
            pending += data
            if prompt_bytes and not continues(prompt_bytes, pending):
                prompt_bytes = b""
            # `tokenizers` decodes a run that is not UTF-8 as one U+FFFD for each byte. Here that starts at the
            # first byte that fits no character: a stream has already sent the characters before it.
            text, rest = decode_valid(prompt_bytes + pending)
            parts.append(text)
            prompt_bytes, pending = (b"", rest) if text else (prompt_bytes, pending)
        elif data:
            # The run of byte tokens ends: what is held of it can't become a character any more.
            parts.append(REPLACEMENT * len(pending) + data.decode())
            prompt_bytes = pending = b""
    return "".join(parts), prompt_bytes, pending
