"""A tokenizer's folder, read into one value: whatever its format, what compiling and proving it need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from derender.vocabulary import Rule, SourceFormat
    from layer_compiler.model_files.configuration import Configuration

__all__ = ["Authority", "Source", "Tokens", "source"]


class Authority(Protocol):
    """The library that a format is read with: what it decodes is right."""

    @property
    def library(self) -> str:
        """Its name."""

    def encode(self, text: str) -> list[list[int]]:
        """The ids of a text, without special tokens and with those that the library adds."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids, with special tokens; an id without a token is nothing."""

    def agrees(self, run: bytes, *, starts_text: bool) -> slice:
        """The part of a run of byte tokens on which the library and the rule are to agree (byte-fallback).

        All, but where the run is no UTF-8, or where the library and `tokenizers`, whose rule it is, differ.
        """


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a tokenizer's own files say."""

    format: SourceFormat
    path: Path
    """The file."""
    sha256: str
    """Of the file."""
    rule: Rule
    pieces: list[bytes]
    """Each id's own bytes; none for an id without a token."""
    named: int
    """Ids that have a token."""
    authority: Authority
    eos_token_id: int | None
    special_token_ids: tuple[int, ...]
    added_token_ids: tuple[int, ...]
    byte_token_ids: tuple[int, ...] = ()
    strip_leading_space: bool = False
    tokenizer_json: bytes = b""
    """A whole tokenizer.json, where the rule is "tokenizers"."""
    origins: dict[str, str] = field(default_factory=dict)
    """Field of a manifest → the file and the field that said it."""
    unknown: tuple[str, ...] = ()
    """What is not said, and what follows."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a model's folder says."""

    tokens: Tokens
    pieces: list[bytes]
    """Each id's own bytes, up to the rows of the model's embedding table."""
    stop_token_ids: tuple[int, ...]
    configuration: Configuration
    origins: dict[str, str]
    unknown: tuple[str, ...]


def source(tokens: Tokens, configuration: Configuration) -> Source:
    """Bring together what a folder's files say.

    Raises:
        BuildError: The tokenizer has no id, or more than any has; or what ends a generation is none of its ids.
    """
    named = len(tokens.pieces)
    size = max(configuration.rows or 0, named)
    if not 0 < size <= MAX_SIZE:
        raise BuildError(f"{tokens.path}: {size} ids; a vocabulary has from 1 to {MAX_SIZE}")
    _check_ends(tokens, configuration, size)
    eos = tokens.eos_token_id
    origins = {"size": tokens.path.name, **configuration.origins, **tokens.origins}
    if named > (configuration.rows or 0):
        origins["size"] = tokens.path.name
    if eos is not None and eos not in configuration.stop_token_ids:
        said = (origins.get("stop_token_ids"), origins.get("eos_token_id"))
        origins["stop_token_ids"] = "; ".join(filter(None, said))
    no_rows = f"no vocab_size in config.json: ids from {size} on are refused"
    return Source(
        tokens=tokens,
        pieces=tokens.pieces + [b""] * (size - named),
        stop_token_ids=tuple(sorted(configuration.stop_token_ids | ({eos} if eos is not None else set()))),
        configuration=configuration,
        origins=dict(sorted(origins.items())),
        unknown=(
            *((no_rows,) if configuration.rows is None else ()),
            *configuration.unknown,
            *tokens.unknown,
        ),
    )


def _check_ends(tokens: Tokens, configuration: Configuration, size: int) -> None:
    """Refuse an id that ends a generation and is none of the vocabulary's: no model could emit it."""
    for name, ends, said in (
        ("stop_token_ids", configuration.stop_token_ids, configuration.origins),
        ("eos_token_id", () if tokens.eos_token_id is None else (tokens.eos_token_id,), tokens.origins),
    ):
        if beyond := [token_id for token_id in sorted(ends) if token_id >= size]:
            raise BuildError(
                f"{tokens.path}: its ids are from 0 to {size - 1}, and {beyond[0]} ends a text "
                f"({said.get(name, name)}): that is another model's configuration"
            )
