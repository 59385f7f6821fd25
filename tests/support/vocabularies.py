"""Small vocabularies, and vocabulary files written by hand."""

from __future__ import annotations

import json
import struct
import tempfile
import zlib
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from derender.vocabulary import Manifest, Rule, Vocabulary, dump, load
from layer_compiler.formats.decoder import compile_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

__all__ = [
    "BYTE_LEVEL",
    "SENTENCE_PIECE",
    "B",
    "S",
    "byte_level",
    "file_content",
    "library",
    "loaded",
    "manifest",
    "sentence_piece",
    "vocabulary",
]


class B(IntEnum):
    """Ids of `BYTE_LEVEL`. The first 256 are the bytes."""

    HELLO = 256
    COMMA = 257
    WORLD = 258
    BANG = 259
    SPACE_AND_2_OF_INFINITY = 260
    E_ACUTE = 261
    LAST_OF_INFINITY_AND_BANG = 262
    FIRST_2_OF_GRIN = 263
    LAST_2_OF_GRIN = 264
    EOS = 265
    OTHER_EOS = 266
    THINK = 267
    PAD = 268
    UNNAMED = 269
    REPLACEMENT = 270
    SIZE = 271


BYTE_LEVEL: Final[list[bytes]] = [
    *(bytes([byte]) for byte in range(256)),
    b"Hello",
    b",",
    b" world",
    b"!",
    b" \xe2\x88",
    b"\xc3\xa9",
    b"\x9e!",
    b"\xf0\x9f",
    b"\x98\x80",
    b"<|end|>",
    b"<|stop|>",
    b"<think>",
    b"<|pad|>",
    b"",
    b"\xef\xbf\xbd",
]


class S(IntEnum):
    """Ids of `SENTENCE_PIECE`. Byte N is `S.BYTE + N`."""

    UNK = 0
    BOS = 1
    EOS = 2
    BYTE = 3
    HELLO = 259
    WORLD = 260
    BANG = 261
    SPACE = 262
    E_ACUTE = 263
    GLUED = 264
    THINK = 265
    UNNAMED = 266
    SIZE = 267


SENTENCE_PIECE: Final[list[bytes]] = [
    b"<unk>",
    b"<s>",
    b"</s>",
    *(bytes([byte]) for byte in range(256)),
    b" Hello",
    b" world",
    b"!",
    b" ",
    b"\xc3\xa9",
    b"glued",
    b"<think>",
    b"",
]


def manifest(**changes: Any) -> Manifest:
    """Return a manifest with the given fields."""
    values: dict[str, Any] = {
        "name": "tiny",
        "rule": "byte-level",
        "size": 3,
        "named": 3,
        "eos_token_id": 2,
        "stop_token_ids": (2,),
        "special_token_ids": (2,),
        "source": "tests",
        "source_sha256": "0" * 64,
    }
    return Manifest(**{**values, **changes})


def loaded(content: bytes) -> Vocabulary:
    """Load a vocabulary from the content of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "v.vocab")
        path.write_bytes(content)
        return load(path)


def vocabulary(pieces: Sequence[bytes], rule: Rule = "byte-level", **changes: Any) -> Vocabulary:
    """Return a vocabulary of the given pieces."""
    named = sum(1 for piece in pieces if piece)
    return loaded(dump(manifest(rule=rule, size=len(pieces), named=named, **changes), pieces))


def byte_level() -> Vocabulary:
    """Return the vocabulary `BYTE_LEVEL`, with two ids that end a sequence."""
    return vocabulary(
        BYTE_LEVEL,
        eos_token_id=int(B.EOS),
        stop_token_ids=(int(B.EOS), int(B.OTHER_EOS)),
        special_token_ids=(int(B.EOS), int(B.OTHER_EOS), int(B.PAD)),
        max_model_len=64,
    )


def sentence_piece(*, strip: bool) -> Vocabulary:
    """Return the vocabulary `SENTENCE_PIECE`. `strip` drops the first space of a text."""
    return vocabulary(
        SENTENCE_PIECE,
        "byte-fallback",
        eos_token_id=int(S.EOS),
        stop_token_ids=(int(S.EOS),),
        special_token_ids=(int(S.UNK), int(S.BOS), int(S.EOS)),
        byte_token_ids=tuple(range(S.BYTE, S.BYTE + 256)),
        strip_leading_space=strip,
    )


def library(tokenizer: Tokenizer, **changes: Any) -> Vocabulary:
    """Return a vocabulary that the `tokenizers` library decodes."""
    size = max(tokenizer.get_vocab().values()) + 1
    values: dict[str, Any] = {"rule": "tokenizers", "size": size, "named": size, **changes}
    definition = tokenizer.to_str()
    tokens = {token_id: token for token, token_id in tokenizer.get_vocab().items()}
    own = compile_pieces(json.loads(definition), tokenizer, tokens, size)
    return loaded(dump(manifest(**values), own, definition.encode()))


def file_content(
    manifest_json: bytes, pieces: Sequence[bytes], *, version: int = 3, count: int | None = None
) -> bytes:
    """Return the content of a vocabulary file, written from the description of its format."""
    padded = manifest_json + b" " * (-len(manifest_json) % 4)
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    body = b"".join(
        (
            len(padded).to_bytes(4, "little"),
            (len(pieces) if count is None else count).to_bytes(4, "little"),
            padded,
            *(end.to_bytes(4, "little") for end in ends),
            *pieces,
        )
    )
    return b"derender" + struct.pack("<II", version, zlib.crc32(body)) + body
