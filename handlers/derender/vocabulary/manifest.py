"""What a compiled vocabulary says about itself."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MAX_LENGTH", "MAX_SIZE", "Manifest", "Rule", "SourceFormat", "fingerprint"]

MAX_SIZE: Final = 1 << 22
"""More ids than any model has; what claims more is damaged or hostile."""
MAX_LENGTH: Final = 1 << 53
"""Of a sequence, in tokens: beyond it, JavaScript's numbers are not exact."""

Rule = Literal["byte-level", "byte-fallback", "tokenizers"]
"""How ids become text.

- byte-level: the ids' bytes concatenate, then UTF-8;
- byte-fallback: SentencePiece; as above, but some ids are single bytes of a character that has no id;
- tokenizers: neither of the two, the `tokenizers` library decodes.
"""

SourceFormat = Literal["tokenizer.json", "tekken", "tiktoken", "sentencepiece"]
"""What a vocabulary was compiled from."""


TokenId = Annotated[int, msgspec.Meta(ge=0, lt=MAX_SIZE)]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a compiled vocabulary says of itself. Fields of a newer writer are ignored."""

    name: str
    """The model's name, as clients send it."""
    rule: Rule
    size: Annotated[int, msgspec.Meta(ge=1, le=MAX_SIZE)]
    """Ids the model can emit: 0 to `size - 1`. More than are named where the embedding table is padded."""
    named: int
    """Ids that have a token."""
    eos_token_id: TokenId | None
    """The primary end-of-sequence id: the tokenizer's."""
    stop_token_ids: tuple[TokenId, ...]
    """Every id that ends a generation: the model's generation configuration, and the primary one."""
    special_token_ids: tuple[TokenId, ...]
    added_token_ids: tuple[TokenId, ...] = ()
    """Ids of added tokens, special or not: what a parser may look for as a marker, whole in one id. Sorted."""
    byte_token_ids: tuple[TokenId, ...] = ()
    """Ids that stand for a single byte (byte-fallback)."""
    strip_leading_space: bool = False
    """Whether the first space of a text is dropped (SentencePiece's dummy prefix)."""
    max_model_len: Annotated[int, msgspec.Meta(ge=1, le=MAX_LENGTH)] | None = None
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    response_template: dict[str, Any] | None = None
    """How a response is parsed, as tokenizer_config.json says it (transformers' response templates)."""
    source: str
    """Where the tokenizer came from, for people."""
    source_format: SourceFormat = "tokenizer.json"
    source_sha256: str
    """SHA-256 of the tokenizer's file."""
    source_revision: str | None = None
    """Which version of the source it was, where it has versions."""
    origins: dict[str, str] = {}
    """Field of this manifest → the file of the source and the field there that said it, for people."""
    fingerprint: str = ""
    """What it decodes to, as one value (`fingerprint`)."""
    licence: str | None = None


def fingerprint(manifest: Manifest, pieces: Iterable[bytes], tokenizer_json: bytes = b"") -> str:
    """What a vocabulary decodes to, as one value: two of the same fingerprint give the same text for the same
    ids, whatever format they were compiled from.

    It is the SHA-256, in hexadecimal, of these, one after another; a number is of 4 bytes, little-endian, and a
    length stands before what has one:

        the rule's name, with its length; 1 where a text's first space is dropped, else 0
        the number of ids, and each id's bytes, with their length
        the number of special ids, and each of them, sorted; the same of ids that stand for a single byte
        the length of the tokenizer.json, and the tokenizer.json, where the rule is "tokenizers"

    Args:
        manifest: Says the rule, and which ids are special.
        pieces: Each id's bytes, `manifest.size` of them.
        tokenizer_json: A whole tokenizer.json, where the rule is "tokenizers".
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
