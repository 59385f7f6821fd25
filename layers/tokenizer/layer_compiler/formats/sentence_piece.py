"""SentencePiece models (`tokenizer.model`, `*.model`, Mistral's `*.model.v3`), with the tokens that
tokenizer_config.json adds.

Only models with byte fallback have a rule. What decides is how `sentencepiece` decodes (`Decode` in
`sentencepiece_processor.cc`): a piece's "▁" is a space, runs of byte pieces are UTF-8, the space that
`add_dummy_prefix` puts before a text is dropped again. Pieces of its type "control" and "unknown" are never
shown there. Here they are special tokens, shown by name where special tokens are, as transformers does.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import BuildError, build_extra
from layer_compiler.model_files import reading
from layer_compiler.model_files.configuration import added_tokens, eos_token_id, special_token_ids
from layer_compiler.model_files.filenames import SENTENCE_PIECE, VERSIONED, matching

from .decoder import BYTE_TOKEN, sentence_piece
from .mistral import shown_markers
from .parsed import Tokens
from .protobuf import MalformedError, fields, length_delimited, varint
from .tiktoken_ranks import is_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from sentencepiece import SentencePieceProcessor

    from layer_compiler.model_files.configuration import Configuration, TokenizerConfig

__all__ = ["find", "marker_tokens", "read", "version_of"]

_VERSION: Final = re.compile(r"\.v([0-9]+)(?:m[0-9]+)?\Z")
_ORDINARY: Final = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
_EVERY_BYTE: Final = frozenset(range(256))


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a model."""

    text: str
    score: float
    type: int


@dataclass(frozen=True, slots=True)
class Model:
    """What is read of a model (`sentencepiece_model.proto`)."""

    pieces: tuple[Piece, ...]
    trainer: bytes
    """TrainerSpec, as it is: says how a text is encoded."""
    eos_id: int
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    denormalizes: bool

    def of_type(self, *types: int) -> list[int]:
        """The ids of pieces of some types."""
        return [token_id for token_id, piece in enumerate(self.pieces) if piece.type in types]


class SentencePiece:
    """The `sentencepiece` library, as the authority."""

    library: Final = "sentencepiece"

    def __init__(
        self,
        starting: SentencePieceProcessor,
        continuing: SentencePieceProcessor,
        written: Mapping[int, str],
        *,
        strips: bool,
    ) -> None:
        """What decodes a text's start, what decodes the rest, what it does not show, whether a text's first
        space is dropped.
        """
        self._starting = starting
        self._continuing = continuing
        self._written = written
        self._strips = strips
        self._size = starting.get_piece_size()

    def encode(self, text: str) -> list[list[int]]:
        """The ids of a text, alone and between a begin and an end."""
        ids: list[int] = self._starting.encode(text)
        # An id that a model does not have is -1.
        begin, end = (
            [each] if each >= 0 else [] for each in (self._starting.bos_id(), self._starting.eos_id())
        )
        return [ids, [*begin, *ids, *end]]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids; those that the library does not show are written between."""
        known = [token_id for token_id in token_ids if token_id < self._size or token_id in self._written]
        parts: list[str] = []
        for written, ids in groupby(known, self._written.__contains__):
            if written:
                text = "".join(map(self._written.__getitem__, ids))
                parts.append(text.removeprefix(" ") if self._strips and not parts else text)
            else:
                parts.append((self._continuing if parts else self._starting).decode(list(ids)))
        return "".join(parts)

    def agrees(self, run: bytes, *, starts_text: bool) -> slice:
        """What is before a byte that fits no character, and it: after it the library finds characters again. A
        byte that is a space at a text's start is not dropped by it, and is by `tokenizers`.
        """
        start = len(run) - len(run.lstrip(b" ")) if starts_text else 0
        try:
            run.decode()
        except UnicodeDecodeError as error:
            return slice(start, error.start + 1)
        return slice(start, None)


def find(folder: Path, names: Sequence[str]) -> Path | None:
    """The model: of those with a version the newest, or one of an ordinary name, or the only one.

    Raises:
        BuildError: There are several.
    """
    versions = {name: version for name in names if (version := version_of(name)) is not None}
    newest = [name for name, version in versions.items() if version == max(versions.values())]
    others = [
        name for name in matching(names, SENTENCE_PIECE) if name not in versions and not is_ranks(folder / name)
    ]
    found = newest or [name for name in _ORDINARY if name in others][:1] or others
    if len(found) > 1:
        raise BuildError(f"{folder}: several SentencePiece models: {', '.join(found)}; leave one")
    return folder / found[0] if found else None


def version_of(name: str) -> int | None:
    """The version of Mistral's instructions that a model's name says; None where it says none."""
    match = _VERSION.search(name) if matching([name], VERSIONED) else None
    return int(match[1]) if match else None


def marker_tokens(content: bytes) -> list[str]:
    """The pieces of a model that are no part of ordinary text: of its types "control" and "user-defined".

    Raises:
        ValueError: It is no model.
    """
    pieces = _model(memoryview(content)).pieces
    return [piece.text for piece in pieces if piece.type in (_CONTROL, _USER_DEFINED)]


def read(path: Path, configuration: Configuration) -> Tokens:
    """Read a SentencePiece model.

    Raises:
        BuildError: The file is malformed, the library refuses it, or it decodes by no rule.
    """
    config = configuration.tokenizer
    content = reading.read(path)
    try:
        model = _model(memoryview(content))
    except (MalformedError, UnicodeDecodeError) as error:
        raise BuildError(f"{path}: no SentencePiece model: {error}") from error
    _check(path, model)
    _check_rule(path, model, config)
    hidden = model.of_type(_UNKNOWN, _CONTROL)
    added = {token_id: token.content for token_id, token in added_tokens(path.parent, config).items()}
    byte_ids = model.of_type(_BYTE)
    if changed := sorted(added.keys() & set(byte_ids)):
        raise BuildError(f"{path}: {added[changed[0]]!r} is added as {changed[0]}, which stands for a byte")
    texts = {token_id: piece.text for token_id, piece in enumerate(model.pieces)} | added
    ids = {text: token_id for token_id, text in reversed(texts.items())}
    pieces = {token_id: sentence_piece(text) for token_id, text in texts.items()}
    eos = eos_token_id(config, ids.get)
    said_eos = "tokenizer_config.json: eos_token"
    if eos is None and model.eos_id in hidden:
        eos, said_eos = model.eos_id, f"{path.name}: eos_id"
    named = special_token_ids(config, ids.get) if config is not None else ()
    shown = shown_markers({texts[token_id]: token_id for token_id in hidden})
    written = {token_id: pieces[token_id].decode() for token_id in (*hidden, *added)}
    return Tokens(
        format="sentencepiece",
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        rule="byte-fallback",
        pieces=[pieces.get(token_id, b"") for token_id in range(max(pieces) + 1)],
        named=len(pieces),
        authority=_authority(path, model, written),
        eos_token_id=eos,
        special_token_ids=tuple(sorted({*hidden, *named} - shown)),
        added_token_ids=tuple(sorted({*model.of_type(_UNKNOWN, _CONTROL, _USER_DEFINED), *added})),
        byte_token_ids=tuple(byte_ids),
        strip_leading_space=model.add_dummy_prefix,
        origins={
            "special_token_ids": f"{path.name}: control tokens"
            + ("; tokenizer_config.json: the tokens it names" if named else ""),
            **({} if eos is None else {"eos_token_id": said_eos}),
        },
        unknown=()
        if config is not None
        else (f"no tokenizer_config.json: the special tokens are those of {path.name}",),
    )


def _model(content: memoryview) -> Model:
    pieces: list[Piece] = []
    trainer = normalizer = b""
    denormalizes = False
    for number, value in fields(content):
        if isinstance(value, int):
            continue
        if number == 1:
            if len(pieces) == MAX_SIZE:
                raise MalformedError(f"more than {MAX_SIZE} pieces")
            pieces.append(_piece(value))
        elif number == 2:
            trainer = bytes(value)
        elif number == 3:
            normalizer = bytes(value)
        elif number == 5:
            # How a text is changed once it is decoded.
            denormalizes = any(field == 2 and len(bytes_of) > 0 for field, bytes_of in _bytes_of(value))
    specification = dict(_integers(normalizer))
    return Model(
        pieces=tuple(pieces),
        trainer=trainer,
        eos_id=dict(_integers(trainer)).get(42, 2),
        add_dummy_prefix=bool(specification.get(3, 1)),
        remove_extra_whitespaces=bool(specification.get(4, 1)),
        denormalizes=denormalizes,
    )


def _piece(message: memoryview) -> Piece:
    text, score, kind = "", 0.0, _NORMAL
    for number, value in fields(message):
        if number == 1 and not isinstance(value, int):
            text = bytes(value).decode()
        elif number == 2 and not isinstance(value, int) and len(value) == 4:
            (score,) = struct.unpack("<f", value)
        elif number == 3 and isinstance(value, int):
            kind = value
    if not text or "\0" in text:
        raise MalformedError("a piece that is empty, or holds a zero")
    return Piece(text, score, kind)


def _integers(message: bytes) -> Iterable[tuple[int, int]]:
    for number, value in fields(memoryview(message)):
        if isinstance(value, int):
            yield number, value


def _bytes_of(message: memoryview) -> Iterable[tuple[int, memoryview]]:
    for number, value in fields(message):
        if not isinstance(value, int):
            yield number, value


def _check(path: Path, model: Model) -> None:
    """Refuse what is no model, before the library sees it."""
    seen: dict[str, int] = {}
    for token_id, piece in enumerate(model.pieces):
        if not _NORMAL <= piece.type <= _BYTE:
            raise BuildError(f"{path}: piece {token_id} is of an unknown type, {piece.type}")
        if not math.isfinite(piece.score):
            raise BuildError(f"{path}: piece {token_id}: its score is no number")
        if (other := seen.setdefault(piece.text, token_id)) != token_id:
            raise BuildError(f"{path}: pieces {other} and {token_id} are the same")
    if len(model.of_type(_UNKNOWN)) != 1:
        raise BuildError(f"{path}: no SentencePiece model: it has no unknown piece, or several")


def _check_rule(path: Path, model: Model, config: TokenizerConfig | None) -> None:
    """Refuse a model that decodes by no rule."""
    served = "a tokenizer.json beside it would be served"
    found = [BYTE_TOKEN.fullmatch(model.pieces[token_id].text) for token_id in model.of_type(_BYTE)]
    if len(found) != 256 or {int(each[1], 16) for each in found if each} != _EVERY_BYTE:
        raise BuildError(f"{path}: it has no byte fallback: no piece for each byte; {served}")
    if model.remove_extra_whitespaces:
        raise BuildError(f"{path}: it removes extra white space, which no rule does; {served}")
    if model.denormalizes:
        raise BuildError(f"{path}: it changes a text once it is decoded, which no rule does; {served}")
    if config is not None and config.field("add_prefix_space") is False and model.add_dummy_prefix:
        raise BuildError(
            f"{path}: it puts a space before a text, and tokenizer_config.json says it does not "
            f"(add_prefix_space); {served}"
        )


def _authority(path: Path, model: Model, written: Mapping[int, str]) -> SentencePiece:
    with build_extra(path):
        import sentencepiece
    pieces = b"".join(
        length_delimited(
            1,
            length_delimited(1, piece.text.encode())
            + b"\x15"
            + struct.pack("<f", piece.score)
            + varint(3, piece.type),
        )
        for piece in model.pieces
    )

    def processor(*, add_dummy_prefix: bool) -> SentencePieceProcessor:
        # Without the tables by which a text is normalised before it is encoded, and its tests of itself:
        # decoding does not use them, and the library trusts them to be sound.
        normalizer = (
            length_delimited(1, b"identity") + varint(3, add_dummy_prefix) + varint(4, 0) + varint(5, 1)
        )
        proto = pieces + length_delimited(2, model.trainer) + length_delimited(3, normalizer)
        return sentencepiece.SentencePieceProcessor(model_proto=proto)

    try:
        return SentencePiece(
            processor(add_dummy_prefix=model.add_dummy_prefix),
            processor(add_dummy_prefix=False),
            written,
            strips=model.add_dummy_prefix,
        )
    except Exception as error:
        # A RuntimeError of several lines is what the library raises.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BuildError(f"{path}: the sentencepiece library refuses it: {reason}") from error
