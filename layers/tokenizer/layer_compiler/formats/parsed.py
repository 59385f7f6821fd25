"""The parsed tokenizer that each format's module returns, and the library that it must agree with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import LayerError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from derender.vocabulary import Rule, SourceFormat
    from layer_compiler.model_files.model_config import Configuration

__all__ = ["ParsedModel", "ParsedTokenizer", "ReferenceLibrary", "add_configuration"]


class ReferenceLibrary(Protocol):
    """A format's own library. A compiled vocabulary must decode as it does."""

    name: str

    def encode(self, text: str) -> list[list[int]]:
        """Return a text's token ids, without special tokens and with those that the library adds."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens included. Ids without a token have no text."""

    def comparable(self, run: bytes, *, starts_text: bool) -> slice:  # noqa: ARG002
        """Return the part of a run of byte tokens that the library decodes as derender does (byte-fallback).

        They differ on purpose if the run isn't UTF-8, or if the library differs from `tokenizers`.
        """
        return slice(None)


@dataclass(frozen=True, slots=True)
class ParsedTokenizer:
    """A tokenizer's own files."""

    format: SourceFormat
    path: Path
    sha256: str
    """Digest of the file at `path`."""
    rule: Rule
    pieces: list[bytes]
    """Each id's own bytes, empty for an id without a token."""
    named: int
    """How many ids have a token."""
    library: ReferenceLibrary
    eos_token_id: int | None
    special_token_ids: tuple[int, ...]
    added_token_ids: tuple[int, ...]
    byte_token_ids: tuple[int, ...] = ()
    strip_leading_space: bool = False
    tokenizer_json: bytes = b""
    """A whole tokenizer.json if the rule is "tokenizers"."""
    origins: dict[str, str] = field(default_factory=dict)
    """Field of the manifest → the file and field that gave it."""
    warnings: tuple[str, ...] = ()
    """Missing facts and their consequences."""


@dataclass(frozen=True, slots=True)
class ParsedModel:
    """A tokenizer together with the model's configuration."""

    tokenizer: ParsedTokenizer
    configuration: Configuration
    pieces: list[bytes]
    """Each id's own bytes, one for each row of the embedding table."""
    stop_token_ids: tuple[int, ...]
    origins: dict[str, str]
    warnings: tuple[str, ...]


def add_configuration(tokenizer: ParsedTokenizer, configuration: Configuration) -> ParsedModel:
    """Combine a tokenizer with the model's configuration.

    Raises:
        LayerError: There are no ids or too many, or an id that ends a generation does not exist.
    """
    named, rows = len(tokenizer.pieces), configuration.embedding_rows or 0
    size = max(rows, named)
    if not 0 < size <= MAX_SIZE:
        raise LayerError(f"{tokenizer.path}: {size} ids; a vocabulary has from 1 to {MAX_SIZE}")
    if beyond := sorted(token_id for token_id in configuration.stop_token_ids if token_id >= size):
        raise LayerError(
            f"{tokenizer.path}: its ids are 0 to {size - 1}, but {beyond[0]} ends a generation "
            f"({configuration.origins['stop_token_ids']}): the configuration is another model's"
        )
    eos = tokenizer.eos_token_id
    origins = {"size": tokenizer.path.name, **configuration.origins, **tokenizer.origins}
    if named > rows:
        origins["size"] = tokenizer.path.name
    if eos is not None and eos not in configuration.stop_token_ids:
        fields = (origins.get("stop_token_ids"), origins.get("eos_token_id"))
        origins["stop_token_ids"] = "; ".join(filter(None, fields))
    no_rows = f"no vocab_size in config.json: ids from {size} on are refused"
    return ParsedModel(
        tokenizer=tokenizer,
        configuration=configuration,
        pieces=tokenizer.pieces + [b""] * (size - named),
        stop_token_ids=tuple(sorted(configuration.stop_token_ids | ({eos} if eos is not None else set()))),
        origins=origins,
        warnings=(*(() if rows else (no_rows,)), *configuration.warnings, *tokenizer.warnings),
    )
