"""tekken.json of `mistral-common`: special tokens first, then ranks."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import LayerError, explain_missing_package, first_line
from layer_compiler.model_files.filenames import TEKKEN, match_names
from layer_compiler.model_files.reading import read_file

from .byte_pairs import PATTERN, read_byte_pairs
from .mistral import find_answer_markers
from .parsed import ParsedTokenizer, ReferenceLibrary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    from layer_compiler.model_files.model_config import Configuration

__all__ = ["find", "parse"]

NAME: Final = "tekken.json"
_EOS: Final = "</s>"
_FILLER: Final = "<SPECIAL_{}>"
"""The name of a special token that the file doesn't list (mistral-common, `SPECIAL_TOKEN_TEMPLATE`)."""
_LISTED_SINCE: Final = 11
"""The version from which files must list their special tokens. Files of earlier versions share a list."""


class Entry(msgspec.Struct):
    """A token of `vocab`."""

    rank: int
    token_bytes: str


class SpecialToken(msgspec.Struct):
    """A token of `special_tokens`."""

    rank: int
    token_str: str


class Config(msgspec.Struct):
    """The fields of `config` that are read."""

    version: str
    default_vocab_size: int
    default_num_special_tokens: int


class File(msgspec.Struct):
    """The fields of tekken.json that are read."""

    config: Config
    vocab: list[Entry]
    special_tokens: list[SpecialToken] | None = None


class MistralCommon(ReferenceLibrary):
    """The `mistral-common` library."""

    name = "mistral-common"

    def __init__(self, tekkenizer: Tekkenizer) -> None:
        from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy

        self._tekkenizer = tekkenizer
        self._keep = SpecialTokenPolicy.KEEP

    def encode(self, text: str) -> list[list[int]]:
        """Return a text's token ids, alone and between the begin and end tokens."""
        ids = self._tekkenizer.encode(text, bos=False, eos=False)
        return [ids, [self._tekkenizer.bos_id, *ids, self._tekkenizer.eos_id]]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        size = self._tekkenizer.n_words
        return self._tekkenizer.decode([token_id for token_id in token_ids if token_id < size], self._keep)


def find(folder: Path, names: Sequence[str]) -> Path | None:
    """Return tekken.json, or else the only file with a name like it (mistral-common ships such files).

    Raises:
        LayerError: There are several.
    """
    found = match_names(names, TEKKEN)
    if NAME in found:
        found = [NAME]
    if len(found) > 1:
        raise LayerError(f"{folder}: several tekken files: {', '.join(found)}; keep one, or rename it {NAME}")
    return folder / found[0] if found else None


def parse(path: Path, configuration: Configuration) -> ParsedTokenizer:  # noqa: ARG001
    """Parse tekken.json. The file itself says which tokens are special and which ends a text.

    Raises:
        LayerError: The file is malformed, or has an unknown version.
    """
    content = read_file(path)
    try:
        file = msgspec.json.decode(content, type=File)
    except (ValueError, RecursionError) as error:
        raise LayerError(f"{path}: can't be read: {error}") from error
    with explain_missing_package(path):
        from mistral_common.tokens.tokenizers.base import TokenizerVersion
    if file.config.version not in TokenizerVersion.__members__:
        raise LayerError(f"{path}: version {file.config.version!r} is unknown to the installed mistral-common")
    special = _name_special_tokens(path, file)
    ranked = file.config.default_vocab_size - len(special)
    if not 0 < ranked <= min(len(file.vocab), MAX_SIZE - len(special)):
        raise LayerError(
            f"{path}: {file.config.default_vocab_size} ids, {len(special)} of them special, "
            f"leave {ranked} for {len(file.vocab)} tokens"
        )
    ranks = read_byte_pairs(path, ((entry.rank, entry.token_bytes) for entry in file.vocab[:ranked]))
    if max(ranks.values()) >= ranked:
        raise LayerError(f"{path}: a rank is missing before {max(ranks.values())}")
    tokens = {rank: token for token, rank in ranks.items()}
    ids = {text: token_id for token_id, text in enumerate(special)}
    if _EOS not in ids:
        raise LayerError(f"{path}: no {_EOS}, which ends a text")
    markers = find_answer_markers(ids)
    return ParsedTokenizer(
        format="tekken",
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        rule="byte-level",
        pieces=[*(text.encode() for text in special), *(tokens[rank] for rank in range(ranked))],
        named=file.config.default_vocab_size,
        library=MistralCommon(_load_library(path, file, special, ranked)),
        eos_token_id=ids[_EOS],
        special_token_ids=tuple(token_id for token_id in ids.values() if token_id not in markers),
        added_token_ids=tuple(range(len(special))),
        origins={
            "eos_token_id": f"{path.name}: {_EOS}",
            "special_token_ids": f"{path.name}: special_tokens",
        },
    )


def _name_special_tokens(path: Path, file: File) -> list[str]:
    """Return the special tokens. Their ids start at 0."""
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    count, listed = file.config.default_num_special_tokens, file.special_tokens
    if listed is None and int(file.config.version.removeprefix("v")) >= _LISTED_SINCE:
        raise LayerError(f"{path}: a file of version {file.config.version} must list special_tokens")
    if listed is None:
        shared = Tekkenizer.DEPRECATED_SPECIAL_TOKENS
        listed = [SpecialToken(token["rank"], token["token_str"]) for token in shared]
    if not len(listed) <= count < MAX_SIZE:
        raise LayerError(f"{path}: {len(listed)} special tokens are listed of {count}")
    for token_id, token in enumerate(listed):
        if token.rank != token_id:
            raise LayerError(f"{path}: special token {token.token_str!r} has rank {token.rank}, not {token_id}")
    names = [token.token_str for token in listed]
    names += [_FILLER.format(token_id) for token_id in range(len(listed), count)]
    if len(set(names)) < count or "" in names:
        raise LayerError(f"{path}: a special token is empty or listed twice")
    return names


def _load_library(path: Path, file: File, special: list[str], ranked: int) -> Tekkenizer:
    from mistral_common.tokens.tokenizers.base import TokenizerVersion
    from mistral_common.tokens.tokenizers.tekken import SpecialTokenInfo, Tekkenizer, TokenInfo

    vocab: list[Any] = [
        TokenInfo(rank=entry.rank, token_bytes=entry.token_bytes, token_str=None)
        for entry in file.vocab[:ranked]
    ]
    try:
        return Tekkenizer(
            vocab=vocab,
            special_tokens=[
                SpecialTokenInfo(rank=token_id, token_str=text, is_control=True)
                for token_id, text in enumerate(special)
            ],
            pattern=PATTERN,
            vocab_size=file.config.default_vocab_size,
            num_special_tokens=len(special),
            version=TokenizerVersion(file.config.version),
        )
    except Exception as error:
        # The library raises assertions.
        raise LayerError(f"{path}: mistral-common refuses it: {first_line(error)}") from error
