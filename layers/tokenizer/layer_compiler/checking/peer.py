"""The other side of a comparison: a server that has the model's tokenizer, or a recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Peer", "RecordedText", "Tokenized"]


@dataclass(frozen=True)
class Tokenized:
    """A text's token ids, as a server encodes it."""

    token_ids: tuple[int, ...]
    max_model_len: int | None
    """The longest sequence that the server accepts, if it says so."""


@dataclass(frozen=True)
class RecordedText:
    """Token ids and their text, as another decoder decoded them."""

    place: str
    """The file and line."""
    token_ids: tuple[int, ...]
    text: str


class Peer(Protocol):
    """A server that has the model's tokenizer. A method returns None if the server lacks its endpoint."""

    def tokenize(self, text: str) -> Tokenized | None:
        """Encode a text without the tokens that begin a sequence."""

    def detokenize(self, token_ids: Sequence[int]) -> str | None:
        """Decode token ids, special tokens included."""

    def detokenize_unknown(self, token_ids: Sequence[int]) -> str | None:
        """Decode token ids that the server may not have. Return None if it refuses them."""

    def show_each(self, token_ids: Sequence[int]) -> tuple[str, ...] | None:
        """Decode each token id alone, as a client sees it: special tokens have no text."""

    def get_max_model_len(self) -> int | None:
        """Return the longest sequence that the server accepts, if it says so."""
