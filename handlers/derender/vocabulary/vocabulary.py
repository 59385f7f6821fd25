"""A vocabulary, ready to decode: token id → bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .cache import Memo
from .library import catch_panics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

    from .manifest import Manifest

__all__ = ["Vocabulary"]

_KEPT_PIECES: Final = 65_536
"""Ids whose bytes are kept as objects: a few megabytes at most, and every id of an ordinary workload."""


class Vocabulary:
    """One model's vocabulary, ready to decode.

    Attributes:
        manifest: What the file says of itself.
        pieces: Token id → the token's own bytes. Defined for ids from 0 to `manifest.size - 1`.
        visible_pieces: The same, but special tokens have none.
        special: Ids of special tokens.
        byte_tokens: Ids that stand for a single byte (byte-fallback).
        tokenizer: The `tokenizers` library's tokenizer where the rule is "tokenizers", else None.
    """

    __slots__ = ("byte_tokens", "manifest", "pieces", "special", "tokenizer", "visible_pieces")

    def __init__(self, manifest: Manifest, offsets: Sequence[int], blob: memoryview) -> None:
        self.manifest = manifest
        self.special = frozenset(manifest.special_token_ids)
        self.byte_tokens = frozenset(manifest.byte_token_ids)
        self.pieces: dict[int, bytes] = Memo(lambda n: bytes(blob[offsets[n] : offsets[n + 1]]), _KEPT_PIECES)
        self.visible_pieces: dict[int, bytes] = Memo(
            lambda n: b"" if n in self.special else self.pieces[n], _KEPT_PIECES
        )
        self.tokenizer: Tokenizer | None = None
        if manifest.rule == "tokenizers":
            # Only vocabularies that need the library pay for its import.
            from tokenizers import Tokenizer

            with catch_panics():
                self.tokenizer = Tokenizer.from_buffer(bytes(blob[offsets[-1] :]))

    def added_tokens(self) -> dict[str, int]:
        """Text of each added token → its id, the lowest where several have the text.

        The text is what the id decodes to: SentencePiece's "▁" is a space. A token that is empty, or whose
        bytes are no UTF-8, is left out.
        """
        # Not kept: there may be thousands (6,415 of Gemma 3), and a parser looks for a few.
        texts: dict[str, int] = {}
        for token_id in self.manifest.added_token_ids:
            piece = self.pieces[token_id] if token_id < self.manifest.size else b""
            try:
                text = piece.decode()
            except UnicodeDecodeError:
                continue
            if text:
                texts[text] = min(token_id, texts.get(text, token_id))
        return texts
