"""Load a tokenizer with its format's own library, as users do."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tiktoken
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Library", "library"]


@dataclass(frozen=True)
class Library:
    """A tokenizer, loaded by its format's library."""

    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    """Decodes ids without special ones."""


def library(path: Path) -> Library:
    """Load a tokenizer's file."""
    if path.name == "tokenizer.json":
        tokenizer = Tokenizer.from_file(str(path))
        return Library(
            lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
            lambda ids: tokenizer.decode(ids, skip_special_tokens=False),
        )
    if path.suffix == ".json":
        tekken = Tekkenizer.from_file(path)
        return Library(
            lambda text: tekken.encode(text, bos=False, eos=False),
            lambda ids: tekken.decode(ids, SpecialTokenPolicy.KEEP),
        )
    if path.suffix == ".tiktoken":
        lines = (line.split() for line in path.read_bytes().splitlines())
        encoding = tiktoken.Encoding(
            "ranks",
            # Near to Qwen's own.
            pat_str=r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+",
            mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
            special_tokens={},
        )
        return Library(encoding.encode_ordinary, encoding.decode)
    processor = SentencePieceProcessor(model_file=str(path))
    return Library(processor.encode, processor.decode)
