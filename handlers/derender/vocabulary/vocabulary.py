"""A loaded vocabulary: the bytes of each token id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .cache import Cache
from .library import catch_panics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

    from .manifest import Manifest

__all__ = ["Vocabulary", "VocabularyError"]

_MAX_CACHED: Final = 65_536
"""Ids whose bytes are cached: every id of an ordinary workload, in a few megabytes."""


class VocabularyError(ValueError):
    """A vocabulary file that can't be used. The message names the file and the reason."""


class Vocabulary:
    """A model's vocabulary, ready to decode.

    Attributes:
        manifest: The manifest of its file.
        pieces: The bytes of each token id, for ids from 0 to `manifest.size - 1`.
        visible_pieces: The same, but special tokens have no bytes.
        special: Ids of special tokens.
        byte_tokens: Ids of tokens that stand for a single byte (rule "byte-fallback").
        tokenizer: The `tokenizers` library's tokenizer (rule "tokenizers").
    """

    __slots__ = ("byte_tokens", "manifest", "pieces", "special", "tokenizer", "visible_pieces")

    def __init__(self, manifest: Manifest, offsets: Sequence[int], blob: memoryview) -> None:
        self.manifest = manifest
        self.special = frozenset(manifest.special_token_ids)
        self.byte_tokens = frozenset(manifest.byte_token_ids)
        self.pieces: dict[int, bytes] = Cache(lambda n: _read_piece(n, offsets, blob), _MAX_CACHED)
        self.visible_pieces: dict[int, bytes] = Cache(
            lambda n: b"" if n in self.special else self.pieces[n], _MAX_CACHED
        )
        self.tokenizer: Tokenizer | None = None
        if manifest.rule == "tokenizers":
            # Only vocabularies that need the library pay for its import.
            from tokenizers import Tokenizer

            with catch_panics():
                self.tokenizer = Tokenizer.from_buffer(bytes(blob[offsets[-1] :]))

    def added_tokens(self) -> dict[str, int]:
        """Return the ids of added tokens by their texts. If several have the same text, the lowest id counts.

        The text is what the id decodes to: SentencePiece's "▁" is a space. Tokens that are empty or not UTF-8
        are left out.
        """
        # Not cached: there may be thousands (6,415 in Gemma 3), and a parser needs only a few.
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


def _read_piece(token_id: int, offsets: Sequence[int], blob: memoryview) -> bytes:
    begin, end = offsets[token_id], offsets[token_id + 1]
    if not begin <= end <= offsets[-1]:
        raise VocabularyError(f"damaged: the offsets of id {token_id} are not in order; build the layer again")
    return bytes(blob[begin:end])
