"""Folders of small tokenizers in each format but tokenizer.json (`tests.support.small_tokenizers`)."""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any, Final

from layer_compiler.formats.protobuf import write_bytes, write_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

BYTES: Final = [bytes([byte]) for byte in range(256)]
WORDS: Final = [b"He", b"llo", b"Hello", b" w", b" world", "é".encode(), b" \xe2\x88", b"\x9e!", b"!!"]
TOKENS: Final = [*BYTES, *WORDS]


def write_json(path: Path, value: object) -> Path:
    """Write a JSON file, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


# --- tiktoken -------------------------------------------------------------------------------------------------

END, THINK = len(TOKENS), len(TOKENS) + 1
TIKTOKEN_CONFIG: Final[dict[str, Any]] = {
    "added_tokens_decoder": {
        str(END): {"content": "<|end|>", "special": True},
        str(THINK): {"content": "<think>", "special": False},
    },
    "eos_token": "<|end|>",
}


def ranks(tokens: Iterable[bytes] = TOKENS) -> bytes:
    """Write a file of ranks."""
    lines = (base64.b64encode(token) + b" %d" % rank for rank, token in enumerate(tokens))
    return b"".join(line + b"\n" for line in lines)


def tiktoken_folder(
    folder: Path, content: bytes | None = None, *, name: str = "tiny.tiktoken", **config: Any
) -> Path:
    """Write a folder with ranks and the special tokens beside them."""
    write_json(folder / "tokenizer_config.json", {**TIKTOKEN_CONFIG, **config})
    (folder / name).write_bytes(ranks() if content is None else content)
    return folder


# --- tekken ---------------------------------------------------------------------------------------------------

SPECIAL: Final = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[THINK]")


def tekken(tokens: Sequence[bytes] = TOKENS, **changes: Any) -> dict[str, Any]:
    """Return a tekken.json of version 13 that lists seven of its ten special tokens. `config` is merged."""
    config = {
        "pattern": r"\w+|\W+",
        "num_vocab_tokens": len(tokens),
        "default_vocab_size": len(tokens) + 10,
        "default_num_special_tokens": 10,
        "version": "v13",
        **changes.pop("config", {}),
    }
    return {
        "config": config,
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
            for rank, token in enumerate(tokens)
        ],
        "special_tokens": [
            {"rank": rank, "token_str": text, "is_control": True} for rank, text in enumerate(SPECIAL)
        ],
        "type": "Tekken",
        "version": 1,
        **changes,
    }


def tekken_folder(folder: Path, file: object = None) -> Path:
    """Write a folder with a tekken.json."""
    write_json(folder / "tekken.json", tekken() if file is None else file)
    return folder


# --- SentencePiece --------------------------------------------------------------------------------------------

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
PIECES: Final[list[tuple[str, int]]] = [
    ("<unk>", UNKNOWN),
    ("<s>", CONTROL),
    ("</s>", CONTROL),
    *((f"<0x{byte:02X}>", BYTE) for byte in range(256)),
    *(("▁Hello", NORMAL), ("▁", NORMAL), ("▁▁", USER_DEFINED), ("world", NORMAL), ("!", NORMAL)),
    *(("é", NORMAL), ("a▁b", NORMAL), ("<think>", USER_DEFINED), ("[TOOL_CALLS]", CONTROL), ("never", UNUSED)),
    *((letter, NORMAL) for letter in "Helowrd"),
]
SPIECE: Final = {text: token_id for token_id, (text, _) in enumerate(PIECES)}


def piece(text: bytes, kind: int, score: float = 0.0) -> bytes:
    """Encode a piece of a model."""
    return write_bytes(1, write_bytes(1, text) + b"\x15" + struct.pack("<f", score) + write_varint(3, kind))


def model(
    pieces: Iterable[tuple[str, int]] = PIECES,
    *,
    trainer: Mapping[int, int] | None = None,
    dummy_prefix: bool | None = True,
    extra_whitespaces: bool | None = False,
    more: bytes = b"",
) -> bytes:
    """Encode a BPE model. A flag that is None is left out, which means the format's default."""
    settings = b"".join(write_varint(field, value) for field, value in {3: 2, 35: 1, **(trainer or {})}.items())
    flags = ((3, dummy_prefix), (4, extra_whitespaces))
    normalizer = write_bytes(1, b"identity") + b"".join(
        write_varint(field, flag) for field, flag in flags if flag is not None
    )
    return (
        b"".join(piece(text.encode(), kind, -float(n)) for n, (text, kind) in enumerate(pieces))
        + write_bytes(2, settings)
        + write_bytes(3, normalizer)
        + more
    )


def sentence_piece_folder(
    folder: Path, content: bytes | None = None, *, name: str = "tokenizer.model", **configs: object
) -> Path:
    """Write a folder with a model and the given configuration files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(model() if content is None else content)
    for file, value in configs.items():
        write_json(folder / f"{file}.json", value)
    return folder
