"""The two rules by which ids become bytes, and how a tokenizer's decoder names them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenizers import Tokenizer

    from derender.vocabulary import Rule

__all__ = ["BYTE_TOKEN", "byte_tokens", "pieces", "rule_of", "sentence_piece", "strips_leading_space"]

_SPACE: Final = "\u2581"
"""How SentencePiece writes a space."""
_REPLACE_SPACE: Final = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
_STRIP_LEADING: Final = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
BYTE_TOKEN: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
"""How a token that stands for a single byte is named."""


def _byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte in a byte-level vocabulary (GPT-2's table): printable bytes
    for themselves, the others in order from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


_BYTES: Final = _byte_alphabet()


def rule_of(definition: dict[str, Any]) -> Rule:
    """The rule of a tokenizer.json, by its decoder; "tokenizers" where it is neither of the two."""
    decoders = _decoders(definition)
    if [decoder["type"] for decoder in decoders] == ["ByteLevel"]:
        return "byte-level"
    byte_fallback = [_REPLACE_SPACE, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if decoders in (byte_fallback, [*byte_fallback, _STRIP_LEADING]):
        return "byte-fallback"
    return "tokenizers"


def strips_leading_space(definition: dict[str, Any]) -> bool:
    """Whether the decoder drops the first space of a text."""
    return _STRIP_LEADING in _decoders(definition)


def pieces(definition: dict[str, Any], tokenizer: Tokenizer, tokens: dict[int, str], size: int) -> list[bytes]:
    """Each id's own bytes; none for ids without a token.

    Args:
        definition: The tokenizer.json.
        tokenizer: The same, loaded.
        tokens: Token id → its token, as in tokenizer.json.
        size: Number of ids.
    """
    rule = rule_of(definition)
    types = [decoder["type"] for decoder in _decoders(definition)]

    def piece(token_id: int, token: str) -> bytes:
        if "ByteLevel" in types:
            return _byte_level(token)
        if rule == "byte-fallback" or ("ByteFallback" in types and BYTE_TOKEN.fullmatch(token)):
            return sentence_piece(token)
        return _alone(tokenizer, token_id, token)

    return [piece(token_id, tokens[token_id]) if token_id in tokens else b"" for token_id in range(size)]


def byte_tokens(definition: dict[str, Any], tokens: dict[int, str]) -> tuple[int, ...]:
    """Ids that stand for a single byte."""
    if {"type": "ByteFallback"} not in _decoders(definition):
        return ()
    return tuple(sorted(token_id for token_id, token in tokens.items() if BYTE_TOKEN.fullmatch(token)))


def _byte_level(token: str) -> bytes:
    try:
        return bytes(_BYTES[character] for character in token)
    except KeyError:
        # An added token that holds other characters is written as it is.
        return token.encode()


def sentence_piece(token: str) -> bytes:
    """The bytes of a token that is written as SentencePiece does."""
    byte = BYTE_TOKEN.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace(_SPACE, " ").encode()


def _alone(tokenizer: Tokenizer, token_id: int, token: str) -> bytes:
    """A token's text as the library decodes it, with the space it carries."""
    text = tokenizer.decode([token_id], skip_special_tokens=False)
    if token.startswith(_SPACE) and _SPACE not in text and not text.startswith(" "):
        # Decoded alone, the token starts a text and loses its space.
        text = " " + text
    return text.encode()


def _decoders(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """The decoders in order, those of sequences within sequences too."""
    return list(_flat(definition.get("decoder") or {"type": None}))


def _flat(decoder: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if decoder["type"] != "Sequence":
        yield decoder
        return
    for each in decoder["decoders"]:
        yield from _flat(each)
