"""The content of a SentencePiece model file (`sentencepiece_model.proto`)."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import LayerError

from .decoder import BYTE_TOKEN
from .protobuf import MalformedError, read_fields, write_bytes, write_varint

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BYTE", "CONTROL", "UNKNOWN", "USER_DEFINED", "Model", "read_model"]

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
_EVERY_BYTE: Final = frozenset(range(256))


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a model."""

    text: str
    score: float
    type: int


@dataclass(frozen=True, slots=True)
class Model:
    """The parts of a model that decoding needs."""

    pieces: tuple[Piece, ...]
    trainer: bytes
    """The encoded TrainerSpec, which says how a text is encoded."""
    eos_id: int
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    denormalizes: bool
    """Whether the model changes a text after decoding it."""

    def ids_of_type(self, *types: int) -> list[int]:
        """Return the ids of the pieces of some types."""
        return [token_id for token_id, piece in enumerate(self.pieces) if piece.type in types]

    def write(self, *, add_dummy_prefix: bool) -> bytes:
        """Write a model for the library, with a flag for the space before a text.

        The tables that normalize text before encoding are left out, and so are the model's self-tests: decoding
        doesn't use them, and the library trusts them to be sound.
        """
        pieces = (
            write_bytes(1, piece.text.encode())
            + b"\x15"
            + struct.pack("<f", piece.score)
            + write_varint(3, piece.type)
            for piece in self.pieces
        )
        normalizer = (
            write_bytes(1, b"identity")
            + write_varint(3, add_dummy_prefix)
            + write_varint(4, 0)
            + write_varint(5, 1)
        )
        content = b"".join(write_bytes(1, piece) for piece in pieces)
        return content + write_bytes(2, self.trainer) + write_bytes(3, normalizer)


def read_model(path: Path, content: bytes) -> Model:
    """Read a model that has a byte-fallback rule.

    Raises:
        LayerError: The content is not a model, or the model decodes by no rule.
    """
    try:
        model = _read_model(memoryview(content))
    except (MalformedError, UnicodeDecodeError) as error:
        raise LayerError(f"{path}: not a SentencePiece model: {error}") from error
    _check_pieces(path, model)
    _check_rule(path, model)
    return model


def _read_model(content: memoryview) -> Model:
    pieces: list[Piece] = []
    trainer = normalizer = b""
    denormalizes = False
    for number, value in read_fields(content):
        if isinstance(value, int):
            continue
        if number == 1:
            if len(pieces) == MAX_SIZE:
                raise MalformedError(f"more than {MAX_SIZE} pieces")
            pieces.append(_read_piece(value))
        elif number == 2:
            trainer = bytes(value)
        elif number == 3:
            normalizer = bytes(value)
        elif number == 5:
            # DenormalizerSpec: its field 2 is the table.
            denormalizes = any(field == 2 and value for field, value in read_fields(value))
    flags = _read_integers(normalizer)
    return Model(
        pieces=tuple(pieces),
        trainer=trainer,
        eos_id=_read_integers(trainer).get(42, 2),
        add_dummy_prefix=bool(flags.get(3, 1)),
        remove_extra_whitespaces=bool(flags.get(4, 1)),
        denormalizes=denormalizes,
    )


def _read_piece(message: memoryview) -> Piece:
    text, score, type_ = "", 0.0, NORMAL
    for number, value in read_fields(message):
        if number == 1 and not isinstance(value, int):
            text = bytes(value).decode()
        elif number == 2 and not isinstance(value, int) and len(value) == 4:
            (score,) = struct.unpack("<f", value)
        elif number == 3 and isinstance(value, int):
            type_ = value
    if not text or "\0" in text:
        raise MalformedError("a piece is empty or contains a zero")
    return Piece(text, score, type_)


def _read_integers(message: bytes) -> dict[int, int]:
    return {number: value for number, value in read_fields(memoryview(message)) if isinstance(value, int)}


def _check_pieces(path: Path, model: Model) -> None:
    """Refuse invalid pieces before the library sees them."""
    seen: dict[str, int] = {}
    for token_id, piece in enumerate(model.pieces):
        if not NORMAL <= piece.type <= BYTE:
            raise LayerError(f"{path}: piece {token_id} has the unknown type {piece.type}")
        if not math.isfinite(piece.score):
            raise LayerError(f"{path}: piece {token_id}: the score is not a number")
        if (other := seen.setdefault(piece.text, token_id)) != token_id:
            raise LayerError(f"{path}: pieces {other} and {token_id} are the same")
    if (count := len(model.ids_of_type(UNKNOWN))) != 1:
        raise LayerError(f"{path}: not a SentencePiece model: it has {count} unknown pieces, not 1")


def _check_rule(path: Path, model: Model) -> None:
    """Refuse a model that decodes by no rule."""
    names = [BYTE_TOKEN.fullmatch(model.pieces[token_id].text) for token_id in model.ids_of_type(BYTE)]
    reason = (
        "has no byte fallback: it needs one piece for each byte"
        if len(names) != 256 or {int(name[1], 16) for name in names if name} != _EVERY_BYTE
        else "removes extra white space, which no rule does"
        if model.remove_extra_whitespaces
        else "changes a text after decoding it, which no rule does"
        if model.denormalizes
        else None
    )
    if reason is not None:
        raise LayerError(f"{path}: {reason}; add a tokenizer.json")
