"""tekken.json, of Mistral's `mistral-common`: special tokens first, then ranks."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import BuildError, build_extra
from layer_compiler.model_files import reading
from layer_compiler.model_files.filenames import TEKKEN, matching

from .byte_pairs import PATTERN, byte_pairs
from .mistral import shown_markers
from .parsed import Tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    from layer_compiler.model_files.configuration import Configuration

__all__ = ["find", "read"]

NAME: Final = "tekken.json"
_EOS: Final = "</s>"
_FILLER: Final = "<SPECIAL_{}>"
"""Name of a special token that the file does not name (mistral-common, `SPECIAL_TOKEN_TEMPLATE`)."""
_LISTED_SINCE: Final = 11
"""Version from which files have to list their special tokens; those before had the same twenty."""


class Entry(msgspec.Struct):
    """A token of `vocab`."""

    rank: int
    token_bytes: str


class SpecialToken(msgspec.Struct):
    """A token of `special_tokens`."""

    rank: int
    token_str: str


class Config(msgspec.Struct):
    """What is read of `config`."""

    version: str
    default_vocab_size: int
    default_num_special_tokens: int


class File(msgspec.Struct):
    """What is read of tekken.json."""

    config: Config
    vocab: list[Entry]
    special_tokens: list[SpecialToken] | None = None


class MistralCommon:
    """The `mistral-common` library, as the authority."""

    library: Final = "mistral-common"

    def __init__(self, tekkenizer: Tekkenizer) -> None:
        from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy

        self._tekkenizer = tekkenizer
        self._keep = SpecialTokenPolicy.KEEP

    def encode(self, text: str) -> list[list[int]]:
        """The ids of a text, without special tokens and between a begin and an end."""
        ids = self._tekkenizer.encode(text, bos=False, eos=False)
        return [ids, [self._tekkenizer.bos_id, *ids, self._tekkenizer.eos_id]]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids."""
        size = self._tekkenizer.n_words
        return self._tekkenizer.decode([token_id for token_id in token_ids if token_id < size], self._keep)

    def agrees(self, run: bytes, *, starts_text: bool) -> slice:  # noqa: ARG002
        """All; but there are no byte tokens."""
        return slice(None)


def find(folder: Path, names: Sequence[str]) -> Path | None:
    """tekken.json, or the one file that is named like it, as those that come with mistral-common.

    Raises:
        BuildError: There are several.
    """
    found = matching(names, TEKKEN)
    if NAME in found:
        found = [NAME]
    if len(found) > 1:
        raise BuildError(f"{folder}: several files of tekken: {', '.join(found)}; leave one, or name it {NAME}")
    return folder / found[0] if found else None


def read(path: Path, configuration: Configuration) -> Tokens:  # noqa: ARG001
    """Read tekken.json. Which tokens are special, and the one that ends a text, it says itself.

    Raises:
        BuildError: The file is malformed, or of a version that is not known.
    """
    content = reading.read(path)
    try:
        file = msgspec.json.decode(content, type=File)
    except (ValueError, RecursionError) as error:
        raise BuildError(f"{path}: can't be read: {error}") from error
    with build_extra(path):
        from mistral_common.tokens.tokenizers.base import TokenizerVersion
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    version = file.config.version
    if version not in TokenizerVersion.__members__:
        raise BuildError(f"{path}: version {version!r} is none that the installed mistral-common knows")
    special = _special_tokens(path, file, int(version.removeprefix("v")), Tekkenizer)
    ranked = file.config.default_vocab_size - len(special)
    if not 0 < ranked <= min(len(file.vocab), MAX_SIZE - len(special)):
        raise BuildError(
            f"{path}: {file.config.default_vocab_size} ids, {len(special)} of them special; "
            f"that leaves {ranked} for {len(file.vocab)} tokens"
        )
    used = file.vocab[:ranked]
    ranks = byte_pairs(path, ((entry.rank, entry.token_bytes) for entry in used))
    if max(ranks.values()) >= ranked:
        raise BuildError(f"{path}: a rank is missing before {max(ranks.values())}")
    by_rank = {rank: token for token, rank in ranks.items()}
    ids = {text: token_id for token_id, text in enumerate(special)}
    if _EOS not in ids:
        raise BuildError(f"{path}: no {_EOS}, which ends a text")
    shown = shown_markers(ids)
    return Tokens(
        format="tekken",
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        rule="byte-level",
        pieces=[*(text.encode() for text in special), *(by_rank[rank] for rank in range(ranked))],
        named=file.config.default_vocab_size,
        authority=MistralCommon(_tekkenizer(path, file, special, version, ranked)),
        eos_token_id=ids[_EOS],
        special_token_ids=tuple(token_id for token_id in ids.values() if token_id not in shown),
        added_token_ids=tuple(range(len(special))),
        origins={
            "eos_token_id": f"{path.name}: {_EOS}",
            "special_token_ids": f"{path.name}: special_tokens",
        },
    )


def _special_tokens(path: Path, file: File, version: int, tekkenizer: type[Tekkenizer]) -> list[str]:
    """The special tokens in order of their ids, which are 0 and up."""
    count = file.config.default_num_special_tokens
    if file.special_tokens is not None:
        listed = file.special_tokens
    elif version < _LISTED_SINCE:
        listed = [
            SpecialToken(each["rank"], each["token_str"]) for each in tekkenizer.DEPRECATED_SPECIAL_TOKENS
        ]
    else:
        raise BuildError(f"{path}: no special_tokens, which a file of version v{version} has to list")
    if not len(listed) <= count < MAX_SIZE:
        raise BuildError(f"{path}: {len(listed)} special tokens are listed, of {count}")
    for token_id, token in enumerate(listed):
        if token.rank != token_id:
            raise BuildError(f"{path}: special token {token.token_str!r} has rank {token.rank}, not {token_id}")
    names = [token.token_str for token in listed]
    names += [_FILLER.format(token_id) for token_id in range(len(listed), count)]
    if len(set(names)) < count or "" in names:
        raise BuildError(f"{path}: a special token is there twice, or empty")
    return names


def _tekkenizer(path: Path, file: File, special: list[str], version: str, ranked: int) -> Tekkenizer:
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
            version=TokenizerVersion(version),
        )
    except Exception as error:
        # Assertions are what the library raises.
        raise BuildError(f"{path}: the mistral-common library refuses it: {error}") from error
