"""The manifest of a compiled vocabulary."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "MAX_GENERATION_PROMPT",
    "MAX_LENGTH",
    "MAX_SIZE",
    "GenerationPrompt",
    "Manifest",
    "Rule",
    "SourceFormat",
    "TokenId",
    "compute_fingerprint",
]

MAX_SIZE: Final = 1 << 22
"""Maximum number of ids, far above any model's: a file with more is damaged or hostile."""
MAX_LENGTH: Final = 1 << 53
"""Maximum length of a sequence in tokens: JavaScript's numbers are exact up to it."""
MAX_GENERATION_PROMPT: Final = 64
"""Maximum number of ids of a generation prompt."""

Rule = Literal["byte-level", "byte-fallback", "tokenizers"]
"""How ids become text.

- byte-level: the ids' bytes are joined and decoded as UTF-8;
- byte-fallback: the same for SentencePiece, where some ids are single bytes of a character that has no id;
- tokenizers: the `tokenizers` library decodes, because neither of the two fits.
"""

SourceFormat = Literal["tokenizer.json", "tekken", "tiktoken", "sentencepiece"]
"""The file that a vocabulary was compiled from."""

TokenId = Annotated[int, msgspec.Meta(ge=0, lt=MAX_SIZE)]
"""An id that some vocabulary may have."""


class GenerationPrompt(msgspec.Struct, frozen=True):
    """How a prompt ends, as the model's chat template writes it."""

    token_ids: Annotated[tuple[TokenId, ...], msgspec.Meta(max_length=MAX_GENERATION_PROMPT)]
    """Its last ids, from the control token on that begins the model's message."""
    arguments: dict[str, bool] = {}
    """The arguments of the chat template with which it ends so."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a compiled vocabulary. Unknown fields, of a newer compiler, are ignored."""

    name: str
    """The model's name, as clients send it."""
    rule: Rule
    size: Annotated[int, msgspec.Meta(ge=1, le=MAX_SIZE)]
    """Number of ids the model can emit, from 0. It exceeds `named` if the embedding table is padded."""
    named: int
    """Number of ids that have a token."""
    eos_token_id: TokenId | None
    """The primary end-of-sequence id: the tokenizer's."""
    stop_token_ids: tuple[TokenId, ...]
    """All ids that end a generation: those of the generation configuration, and the primary one."""
    special_token_ids: tuple[TokenId, ...]
    added_token_ids: tuple[TokenId, ...] = ()
    """Ids of added tokens, special or not, sorted. A parser may look for them as markers."""
    byte_token_ids: tuple[TokenId, ...] = ()
    """Ids of tokens that stand for a single byte (rule "byte-fallback")."""
    strip_leading_space: bool = False
    """Whether the first space of a text is dropped (SentencePiece's dummy prefix)."""
    max_model_len: Annotated[int, msgspec.Meta(ge=1, le=MAX_LENGTH)] | None = None
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    generation_prompts: tuple[GenerationPrompt, ...] = ()
    """How prompts end. Of several, the first whose arguments a request has is the request's."""
    response_template: dict[str, Any] | None = None
    """The response template of tokenizer_config.json (transformers)."""
    source: str
    """Where the tokenizer came from, for people."""
    source_format: SourceFormat = "tokenizer.json"
    source_sha256: str
    """SHA-256 of the tokenizer's file."""
    source_revision: str | None = None
    """Revision of the source, if it has any."""
    origins: dict[str, str] = {}
    """For each field of this manifest, the source's file and field that it was read from, for people."""
    fingerprint: str = ""
    """Identifies what the vocabulary decodes to (`compute_fingerprint`)."""
    licence: str | None = None


def compute_fingerprint(manifest: Manifest, pieces: Iterable[bytes], tokenizer_json: bytes = b"") -> str:
    """Identify what a vocabulary decodes to, whatever format it was compiled from.

    Two vocabularies with the same fingerprint give the same text for the same ids. The fingerprint is the
    SHA-256, in hexadecimal, of the following. Numbers have 4 bytes, little-endian; lengths precede what they
    measure.

        the rule's name, with its length
        1 if the first space of a text is dropped, else 0
        the number of ids; the bytes of each id, with their length
        the number of special ids; each of them, sorted
        the number of ids that stand for a single byte; each of them, sorted
        the length of the tokenizer.json; the tokenizer.json, if the rule is "tokenizers"

    Args:
        manifest: The manifest, with the rule and the special ids.
        pieces: The bytes of each id, `manifest.size` in all.
        tokenizer_json: The tokenizer.json, if the rule is "tokenizers".
    """
    number = struct.Struct("<I").pack
    rule = manifest.rule.encode()
    parts = [number(len(rule)), rule, number(manifest.strip_leading_space), number(manifest.size)]
    for piece in pieces:
        parts += (number(len(piece)), piece)
    for ids in (manifest.special_token_ids, manifest.byte_token_ids):
        parts += (number(len(ids)), *map(number, sorted(ids)))
    parts += (number(len(tokenizer_json)), tokenizer_json)
    return hashlib.sha256(b"".join(parts)).hexdigest()
