"""The compiled vocabulary: token id → bytes, mapped from one flat file.

A file holds what decoding needs and nothing an encoder would: each id's own bytes and a manifest. All
integers are little-endian.

    offset  size
    0       8        magic, b"derender"
    8       4        format version
    12      4        CRC-32 of everything from byte 16 on; what is before it has one right value each
    16      4        m, length of the manifest
    20      4        n, number of ids
    24      m        manifest, JSON, padded with spaces to a multiple of 4
    24+m    4(n+1)   offset of each id's bytes in the blob, and the blob's end
    …                the blob: the ids' bytes one after another
    …                where the rule is "tokenizers", a whole tokenizer.json

The file is mapped: loading reads it through once, for the checksum, and makes no object of what no request
mentions. An id without a name (the padding of the embedding table) has no bytes.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
import zlib
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from .memo import Memo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tokenizers import Tokenizer

__all__ = [
    "MAX_LENGTH",
    "MAX_SIZE",
    "SUFFIX",
    "Manifest",
    "Rule",
    "SourceFormat",
    "VersionError",
    "Vocabulary",
    "VocabularyError",
    "dump",
    "fingerprint",
    "load",
    "read_manifest",
    "with_manifest",
]

SUFFIX: Final = ".vocab"
MAGIC: Final = b"derender"
FORMAT_VERSION: Final = 3
MAX_SIZE: Final = 1 << 22
"""More ids than any model has; what claims more is damaged or hostile."""
MAX_LENGTH: Final = 1 << 53
"""Of a sequence, in tokens: beyond it, JavaScript's numbers are not exact."""
_HEADER: Final = struct.Struct("<8sIIII")
_CHECKED_FROM: Final = 16
_KEPT_PIECES: Final = 65_536
"""Ids whose bytes are kept as objects: a few megabytes at most, and every id of an ordinary workload."""

Rule = Literal["byte-level", "byte-fallback", "tokenizers"]
"""How ids become text.

- byte-level: the ids' bytes concatenate, then UTF-8;
- byte-fallback: SentencePiece; as above, but some ids are single bytes of a character that has no id;
- tokenizers: neither of the two, the `tokenizers` library decodes.
"""

SourceFormat = Literal["tokenizer.json", "tekken", "tiktoken", "sentencepiece"]
"""What a vocabulary was compiled from."""


class VocabularyError(ValueError):
    """A vocabulary file that can't be used; the message names the file and says why."""


class VersionError(VocabularyError):
    """A vocabulary file of another format version; to be built again."""


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


class Vocabulary:
    """One model's vocabulary, ready to decode.

    Attributes:
        manifest: What the file says of itself.
        pieces: Token id → the token's own bytes. Defined for ids from 0 to `manifest.size - 1`.
        visible_pieces: The same, but special tokens have none.
        special: Ids of special tokens.
        byte_tokens: Ids that stand for a single byte (byte-fallback).
        tokenizer: The `tokenizers` library's tokenizer where the rule is "tokenizers", else None.
    """

    __slots__ = ("byte_tokens", "manifest", "pieces", "special", "tokenizer", "visible_pieces")

    def __init__(self, manifest: Manifest, offsets: Sequence[int], blob: memoryview) -> None:
        self.manifest = manifest
        self.special = frozenset(manifest.special_token_ids)
        self.byte_tokens = frozenset(manifest.byte_token_ids)
        self.pieces: dict[int, bytes] = Memo(lambda n: bytes(blob[offsets[n] : offsets[n + 1]]), _KEPT_PIECES)
        self.visible_pieces: dict[int, bytes] = Memo(
            lambda n: b"" if n in self.special else self.pieces[n], _KEPT_PIECES
        )
        self.tokenizer: Tokenizer | None = None
        if manifest.rule == "tokenizers":
            # Only vocabularies that need the library pay for its import.
            from tokenizers import Tokenizer

            self.tokenizer = Tokenizer.from_buffer(bytes(blob[offsets[-1] :]))

    def added_tokens(self) -> dict[str, int]:
        """Text of each added token → its id, the lowest where several have the text.

        The text is what the id decodes to: SentencePiece's "▁" is a space. A token that is empty, or whose
        bytes are no UTF-8, is left out.
        """
        # Not kept: there may be thousands (6,415 of Gemma 3), and a parser looks for a few.
        texts: dict[str, int] = {}
        for token_id in self.manifest.added_token_ids:
            piece = self.pieces[token_id] if token_id < self.manifest.size else b""
            try:
                text = piece.decode()
            except UnicodeDecodeError:
                continue
            if text:
                texts[text] = min(token_id, texts.get(text, token_id))
        return texts


def dump(manifest: Manifest, pieces: Sequence[bytes], tokenizer_json: bytes = b"") -> bytes:
    """Write a vocabulary file's content.

    Args:
        manifest: What the file says of itself.
        pieces: Each id's bytes, `manifest.size` of them.
        tokenizer_json: A whole tokenizer.json, where the rule is "tokenizers".
    """
    offsets = [0, *accumulate(map(len, pieces))]
    return _content(manifest, len(pieces), struct.pack(f"<{len(offsets)}I", *offsets), *pieces, tokenizer_json)


def with_manifest(content: bytes, manifest: Manifest) -> bytes:
    """A vocabulary file's content with another manifest: what it decodes to stays.

    Args:
        content: The whole file, sound.
        manifest: What it is to say of itself.
    """
    *_, length, count = _HEADER.unpack_from(content)
    return _content(manifest, count, content[_HEADER.size + length :])


def _content(manifest: Manifest, count: int, *rest: bytes) -> bytes:
    text = msgspec.json.encode(manifest)
    text += b" " * (-len(text) % 4)
    checked = b"".join((struct.pack("<II", len(text), count), text, *rest))
    return MAGIC + struct.pack("<II", FORMAT_VERSION, zlib.crc32(checked)) + checked


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


def files(folder: Path) -> list[Path]:
    """The vocabulary files in a folder, by name.

    Raises:
        VocabularyError: The folder can't be read, or holds none.
    """
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX)
    except OSError as error:
        raise VocabularyError(f"{folder}: can't be read: {error.strerror}") from error
    if not found:
        raise VocabularyError(
            f"{folder}: no compiled vocabulary (*{SUFFIX}); "
            "make one with: derender layer build FOLDER --name NAME --out DIR"
        )
    return found


def load(path: Path) -> Vocabulary:
    """Map a vocabulary file.

    Raises:
        VocabularyError: The file is missing, of another format or version, or damaged.
    """
    content = _map(path)
    manifest_length, count = _check(path, content)
    manifest = _manifest(path, content, manifest_length)
    start = _HEADER.size + manifest_length
    end = start + 4 * (count + 1)
    if manifest_length % 4 or end > len(content) or count != manifest.size:
        raise VocabularyError(f"{path}: the number of ids is not the manifest's")
    offsets, blob = content[start:end].cast("I"), content[end:]
    if offsets[0] or offsets[-1] > len(blob) or (manifest.rule != "tokenizers" and offsets[-1] < len(blob)):
        raise VocabularyError(f"{path}: the ids' bytes are not as long as the file says")
    try:
        return Vocabulary(manifest, offsets, blob)
    except Exception as error:
        # The tokenizers library raises a bare Exception for what it does not know.
        raise VocabularyError(f"{path}: the tokenizers library refuses it: {error}") from error


def read_manifest(path: Path) -> Manifest:
    """Read what a vocabulary file says of itself, without checking the rest of it.

    Raises:
        VocabularyError: The file is missing, or of another format or version.
    """
    content = _map(path)
    return _manifest(path, content, _header(path, content)[1])


def _map(path: Path) -> memoryview:
    if not path.is_file():
        # A pipe would be waited for.
        raise VocabularyError(f"{path}: can't be read: No such file")
    try:
        with path.open("rb") as file:
            # The mapping outlives the descriptor.
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise VocabularyError(f"{path}: can't be read: {error}") from error


def _header(path: Path, content: memoryview) -> tuple[int, int, int]:
    """Checksum, length of the manifest, number of ids."""
    if len(content) < _HEADER.size or bytes(content[: len(MAGIC)]) != MAGIC:
        raise VocabularyError(f"{path}: not a compiled vocabulary")
    _, version, checksum, manifest_length, count = _HEADER.unpack_from(content)
    if version != FORMAT_VERSION:
        raise VersionError(
            f"{path}: format version {version}, this program reads {FORMAT_VERSION}; build the layer again"
        )
    return checksum, manifest_length, count


def _check(path: Path, content: memoryview) -> tuple[int, int]:
    checksum, manifest_length, count = _header(path, content)
    if zlib.crc32(content[_CHECKED_FROM:]) != checksum:
        raise VocabularyError(f"{path}: damaged: the checksum does not match; build the layer again")
    return manifest_length, count


def _manifest(path: Path, content: memoryview, length: int) -> Manifest:
    try:
        return msgspec.json.decode(content[_HEADER.size : _HEADER.size + length], type=Manifest)
    except (ValueError, RecursionError) as error:
        raise VocabularyError(f"{path}: the manifest can't be read: {error}") from error
