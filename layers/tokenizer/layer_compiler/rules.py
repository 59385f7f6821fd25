"""The two rules by which ids become bytes, and how a tokenizer's decoder names them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from derender.vocabulary import Rule

__all__ = ["byte_tokens", "pieces", "rule_of", "strips_leading_space"]

_REPLACE_MARKER: Final = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
_STRIP_LEADING: Final = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
_BYTE_TOKEN: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")


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
    byte_fallback = [_REPLACE_MARKER, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if decoders in (byte_fallback, [*byte_fallback, _STRIP_LEADING]):
        return "byte-fallback"
    return "tokenizers"


def strips_leading_space(definition: dict[str, Any]) -> bool:
    """Whether the decoder drops the first space of a text."""
    return _STRIP_LEADING in _decoders(definition)


def pieces(rule: Rule, tokens: dict[int, str], size: int) -> list[bytes]:
    """Each id's own bytes; none for ids without a token.

    Args:
        rule: How tokens become bytes; not "tokenizers".
        tokens: Token id → its token, as in tokenizer.json.
        size: Number of ids.
    """
    to_bytes: Callable[[str], bytes] = _byte_level if rule == "byte-level" else _sentence_piece
    return [to_bytes(tokens[token_id]) if token_id in tokens else b"" for token_id in range(size)]


def byte_tokens(definition: dict[str, Any], tokens: dict[int, str]) -> tuple[int, ...]:
    """Ids that stand for a single byte."""
    if {"type": "ByteFallback"} not in _decoders(definition):
        return ()
    return tuple(sorted(token_id for token_id, token in tokens.items() if _BYTE_TOKEN.fullmatch(token)))


def _byte_level(token: str) -> bytes:
    try:
        return bytes(_BYTES[character] for character in token)
    except KeyError:
        # An added token that holds other characters is written as it is.
        return token.encode()


def _sentence_piece(token: str) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace("\u2581", " ").encode()


def _decoders(definition: dict[str, Any]) -> list[dict[str, Any]]:
    decoder = definition.get("decoder") or {"type": "None"}
    decoders: list[dict[str, Any]] = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    return decoders
