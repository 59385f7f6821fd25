"""The decoder of a tokenizer.json: the rule that it follows, and the bytes of each token under that rule."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenizers import Tokenizer

    from derender.vocabulary import Rule

__all__ = [
    "BYTE_TOKEN",
    "compile_pieces",
    "find_byte_tokens",
    "find_rule",
    "sentence_piece_bytes",
    "strips_leading_space",
]

_SPACE: Final = "\u2581"
"""SentencePiece's space, "▁"."""
_REPLACE_SPACE: Final = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
_STRIP_LEADING: Final = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
BYTE_TOKEN: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
"""The name of a token that stands for a single byte."""


def _byte_alphabet() -> dict[str, int]:
    """Map GPT-2's characters to bytes: printable bytes stand for themselves, the others follow from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


_BYTES: Final = _byte_alphabet()


def find_rule(definition: dict[str, Any]) -> Rule:
    """Return the rule that a tokenizer.json's decoder follows, "tokenizers" if it is neither of the two."""
    decoders = _flatten(definition)
    if [decoder["type"] for decoder in decoders] == ["ByteLevel"]:
        return "byte-level"
    byte_fallback = [_REPLACE_SPACE, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if decoders in (byte_fallback, [*byte_fallback, _STRIP_LEADING]):
        return "byte-fallback"
    return "tokenizers"


def strips_leading_space(definition: dict[str, Any]) -> bool:
    """Return whether the decoder drops the first space of a text."""
    return _STRIP_LEADING in _flatten(definition)


def compile_pieces(
    definition: dict[str, Any], tokenizer: Tokenizer, tokens: dict[int, str], size: int
) -> list[bytes]:
    """Return each id's own bytes, empty for ids without a token.

    Args:
        definition: The tokenizer.json.
        tokenizer: The same, loaded.
        tokens: Token id → token, as tokenizer.json writes it.
        size: How many ids there are.
    """
    rule = find_rule(definition)
    types = [decoder["type"] for decoder in _flatten(definition)]

    def piece(token_id: int, token: str) -> bytes:
        if "ByteLevel" in types:
            return _byte_level_bytes(token)
        if rule == "byte-fallback" or ("ByteFallback" in types and BYTE_TOKEN.fullmatch(token)):
            return sentence_piece_bytes(token)
        return _decode_alone(tokenizer, token_id, token)

    return [piece(token_id, tokens[token_id]) if token_id in tokens else b"" for token_id in range(size)]


def find_byte_tokens(definition: dict[str, Any], tokens: dict[int, str]) -> tuple[int, ...]:
    """Return the ids that stand for a single byte."""
    if {"type": "ByteFallback"} not in _flatten(definition):
        return ()
    return tuple(sorted(token_id for token_id, token in tokens.items() if BYTE_TOKEN.fullmatch(token)))


def sentence_piece_bytes(token: str) -> bytes:
    """Return the bytes of a token that is written as SentencePiece writes it."""
    byte = BYTE_TOKEN.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace(_SPACE, " ").encode()


def _byte_level_bytes(token: str) -> bytes:
    try:
        return bytes(_BYTES[character] for character in token)
    except KeyError:
        # Added tokens with other characters are not in the byte alphabet.
        return token.encode()


def _decode_alone(tokenizer: Tokenizer, token_id: int, token: str) -> bytes:
    """Return a token's text as the library decodes it, with its leading space."""
    text = tokenizer.decode([token_id], skip_special_tokens=False)
    if token.startswith(_SPACE) and _SPACE not in text and not text.startswith(" "):
        # Decoded alone, the token starts a text and loses its space.
        text = " " + text
    return text.encode()


def _flatten(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a tokenizer.json's decoders in order, nested sequences included."""

    def flatten(decoder: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if decoder["type"] != "Sequence":
            yield decoder
            return
        for inner in decoder["decoders"]:
            yield from flatten(inner)

    return list(flatten(definition.get("decoder") or {"type": None}))
