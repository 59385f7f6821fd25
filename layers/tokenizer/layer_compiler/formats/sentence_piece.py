"""SentencePiece models (`tokenizer.model`, `*.model`, Mistral's `*.model.v3`), with the tokens that
tokenizer_config.json adds.

Only models with byte fallback are compiled. The reference is `sentencepiece` (`Decode` in
`sentencepiece_processor.cc`): "▁" in a piece is a space, runs of byte pieces are UTF-8, and the space that
`add_dummy_prefix` puts before a text is dropped again. `sentencepiece` never shows control and unknown pieces.
Here they are special tokens, which are shown by name if special tokens are shown, as in transformers.
"""

from __future__ import annotations

import hashlib
import re
from itertools import groupby
from typing import TYPE_CHECKING, Final

from layer_compiler.errors import LayerError, explain_missing_package, first_line
from layer_compiler.model_files.filenames import MISTRAL_SENTENCE_PIECE, SENTENCE_PIECE, match_names
from layer_compiler.model_files.reading import read_file
from layer_compiler.model_files.tokenizer_config import (
    find_eos_token_id,
    find_special_token_ids,
    read_added_tokens,
)

from .decoder import sentence_piece_bytes
from .mistral import find_answer_markers
from .parsed import ParsedTokenizer, ReferenceLibrary
from .sentence_piece_model import BYTE, CONTROL, UNKNOWN, USER_DEFINED, read_model
from .tiktoken_ranks import is_ranks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sentencepiece import SentencePieceProcessor

    from layer_compiler.model_files.model_config import Configuration

    from .sentence_piece_model import Model

__all__ = ["find", "find_version", "parse"]

_VERSION: Final = re.compile(r"\.v([0-9]+)(?:m[0-9]+)?\Z")
_USUAL_NAMES: Final = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")


class SentencePiece(ReferenceLibrary):
    """The `sentencepiece` library."""

    name = "sentencepiece"

    def __init__(
        self,
        first: SentencePieceProcessor,
        rest: SentencePieceProcessor,
        written: Mapping[int, str],
        *,
        strips: bool,
    ) -> None:
        """Load the library.

        Args:
            first: Decodes the start of a text.
            rest: Decodes what follows, and adds no space before it.
            written: Id → text of the tokens that the library doesn't show.
            strips: Whether the first space of a text is dropped.
        """
        self._first = first
        self._rest = rest
        self._written = written
        self._strips = strips
        self._size = first.get_piece_size()

    def encode(self, text: str) -> list[list[int]]:
        """Return a text's token ids, alone and between the begin and end tokens."""
        ids: list[int] = self._first.encode(text)
        # A missing token has the id -1.
        begin, end = ([each] if each >= 0 else [] for each in (self._first.bos_id(), self._first.eos_id()))
        return [ids, [*begin, *ids, *end]]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of token ids, tokens that the library doesn't show included."""
        known = [token_id for token_id in token_ids if token_id < self._size or token_id in self._written]
        parts: list[str] = []
        for is_written, ids in groupby(known, self._written.__contains__):
            if is_written:
                text = "".join(map(self._written.__getitem__, ids))
                parts.append(text.removeprefix(" ") if self._strips and not parts else text)
            else:
                parts.append((self._rest if parts else self._first).decode(list(ids)))
        return "".join(parts)

    def comparable(self, run: bytes, *, starts_text: bool) -> slice:
        """Return the bytes up to the first that fits no character; `sentencepiece` finds characters after it.

        Spaces at the start of a text are left out: `sentencepiece` keeps one that is a byte token, `tokenizers`
        drops it.
        """
        start = len(run) - len(run.lstrip(b" ")) if starts_text else 0
        try:
            run.decode()
        except UnicodeDecodeError as error:
            return slice(start, error.start + 1)
        return slice(start, None)


def find(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the model: the newest version, or else one with a usual name, or else the only one.

    Raises:
        LayerError: Several files qualify.
    """
    versions = {name: version for name in names if (version := find_version(name)) is not None}
    newest = [name for name, version in versions.items() if version == max(versions.values())]
    others = [
        name
        for name in match_names(names, SENTENCE_PIECE)
        if name not in versions and not is_ranks(folder / name)
    ]
    found = newest or [name for name in _USUAL_NAMES if name in others][:1] or others
    if len(found) > 1:
        raise LayerError(f"{folder}: several SentencePiece models: {', '.join(found)}; keep one")
    return folder / found[0] if found else None


def find_version(name: str) -> int | None:
    """Return the version of Mistral's instruction format that a file's name ends with, if any."""
    match = _VERSION.search(name) if match_names([name], MISTRAL_SENTENCE_PIECE) else None
    return int(match[1]) if match else None


def parse(path: Path, configuration: Configuration) -> ParsedTokenizer:
    """Parse a SentencePiece model.

    Raises:
        LayerError: The file is malformed, the library refuses it, or it decodes by no rule.
    """
    config = configuration.tokenizer
    content = read_file(path)
    model = read_model(path, content)
    if model.add_dummy_prefix and config is not None and config.extra_field("add_prefix_space") is False:
        raise LayerError(
            f"{path}: puts a space before a text, but tokenizer_config.json says add_prefix_space: false; "
            "add a tokenizer.json"
        )
    hidden = model.ids_of_type(UNKNOWN, CONTROL)
    byte_ids = model.ids_of_type(BYTE)
    added = {token_id: token.content for token_id, token in read_added_tokens(path.parent, config).items()}
    if changed := sorted(added.keys() & set(byte_ids)):
        raise LayerError(f"{path}: {added[changed[0]]!r} is added as {changed[0]}, which stands for a byte")
    texts = {token_id: piece.text for token_id, piece in enumerate(model.pieces)} | added
    ids = {text: token_id for token_id, text in reversed(texts.items())}
    pieces = {token_id: sentence_piece_bytes(text) for token_id, text in texts.items()}
    eos, eos_origin = find_eos_token_id(config, ids.get), "tokenizer_config.json: eos_token"
    if eos is None and model.eos_id in hidden:
        eos, eos_origin = model.eos_id, f"{path.name}: eos_id"
    named = find_special_token_ids(config, ids.get) if config is not None else ()
    markers = find_answer_markers({texts[token_id]: token_id for token_id in hidden})
    return ParsedTokenizer(
        format="sentencepiece",
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        rule="byte-fallback",
        pieces=[pieces.get(token_id, b"") for token_id in range(max(pieces) + 1)],
        named=len(pieces),
        library=_load_library(path, model, {each: pieces[each].decode() for each in (*hidden, *added)}),
        eos_token_id=eos,
        special_token_ids=tuple(sorted({*hidden, *named} - markers)),
        added_token_ids=tuple(sorted({*hidden, *model.ids_of_type(USER_DEFINED), *added})),
        byte_token_ids=tuple(byte_ids),
        strip_leading_space=model.add_dummy_prefix,
        origins={
            "special_token_ids": f"{path.name}: control tokens"
            + ("; tokenizer_config.json: the tokens it names" if named else ""),
            **({} if eos is None else {"eos_token_id": eos_origin}),
        },
        warnings=()
        if config is not None
        else (f"no tokenizer_config.json: the special tokens are those of {path.name}",),
    )


def _load_library(path: Path, model: Model, written: Mapping[int, str]) -> SentencePiece:
    with explain_missing_package(path):
        import sentencepiece
    try:
        first, rest = (
            sentencepiece.SentencePieceProcessor(model_proto=model.write(add_dummy_prefix=flag))
            for flag in (model.add_dummy_prefix, False)
        )
        return SentencePiece(first, rest, written, strips=model.add_dummy_prefix)
    except Exception as error:
        raise LayerError(f"{path}: sentencepiece refuses it: {first_line(error)}") from error
