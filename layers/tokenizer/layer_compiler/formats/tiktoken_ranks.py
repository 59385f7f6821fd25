"""Ranks of tiktoken (`*.tiktoken`, `tiktoken.model`), with the special tokens of tokenizer_config.json.

Each line is a token in base64, a space, and its rank. The file has no special token: those that the model's own
code would add are not known, for it is not executed, but where tokenizer_config.json lists them.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from typing import TYPE_CHECKING, Final

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import BuildError, build_extra
from layer_compiler.model_files import reading
from layer_compiler.model_files.configuration import added_tokens, eos_token_id, special_token_ids
from layer_compiler.model_files.filenames import RANKS, matching

from .byte_pairs import PATTERN, byte_pairs
from .parsed import Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import tiktoken

    from layer_compiler.model_files.configuration import Configuration, TokenizerConfig

__all__ = ["find", "is_ranks", "read"]

_LINE: Final = re.compile(rb"([A-Za-z0-9+/]+={0,2}) ([0-9]{1,7})")
_FIRST: Final = 4096
"""Bytes of a file that tell what it is."""
_MOONSHOT: Final = ("tokenization_kimi.", "tokenization_moonshot.")
"""Modules of tokenizers that give each of the ids after the ranks a name."""
_RESERVED: Final = 256
"""How many those are (`TikTokenTokenizer.num_reserved_special_tokens` in both)."""


class Tiktoken:
    """The `tiktoken` library, as the authority."""

    library: Final = "tiktoken"

    def __init__(self, encoding: tiktoken.Encoding, named: frozenset[int]) -> None:
        self._encoding = encoding
        self._named = named

    def encode(self, text: str) -> list[list[int]]:
        """The ids of a text, without special tokens and with those that it spells."""
        return [
            self._encoding.encode(text, disallowed_special=()),
            self._encoding.encode(text, allowed_special="all"),
        ]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids."""
        return self._encoding.decode([token_id for token_id in token_ids if token_id in self._named])

    def agrees(self, run: bytes, *, starts_text: bool) -> slice:  # noqa: ARG002
        """All; but there are no byte tokens."""
        return slice(None)


def find(folder: Path, names: Sequence[str]) -> Path | None:
    """The file of ranks: one that is named so, or a tokenizer.model that is none of SentencePiece's (Llama 3).

    Raises:
        BuildError: There are several.
    """
    found = matching(names, RANKS)
    if not found and "tokenizer.model" in names and is_ranks(folder / "tokenizer.model"):
        found = ["tokenizer.model"]
    if len(found) > 1:
        raise BuildError(f"{folder}: several files of ranks: {', '.join(found)}; leave one")
    return folder / found[0] if found else None


def is_ranks(path: Path) -> bool:
    """Whether a file begins as ranks do."""
    try:
        with path.open("rb") as file:
            return _LINE.fullmatch(file.read(_FIRST).partition(b"\n")[0].rstrip()) is not None
    except OSError:
        return False


def read(path: Path, configuration: Configuration) -> Tokens:
    """Read a file of ranks.

    Raises:
        BuildError: The file is malformed, or its special tokens are not known.
    """
    config = configuration.tokenizer
    content = reading.read(path)
    ranks = byte_pairs(path, _entries(path, content))
    special = _special_tokens(path, config, len(ranks))
    named = {rank: token for token, rank in ranks.items()}
    for token_id, text in special.items():
        if token_id in named:
            raise BuildError(f"{path}: {text!r} is added as {token_id}, which is a rank of the file")
        named[token_id] = text.encode()
    for rank in range(max(ranks.values())):
        if rank not in named:
            raise BuildError(f"{path}: rank {rank} is missing")
    ids = {text: token_id for token_id, text in special.items()}

    def id_of(text: str) -> int | None:
        return ids[text] if text in ids else ranks.get(text.encode())

    eos = eos_token_id(config, id_of)
    return Tokens(
        format="tiktoken",
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        rule="byte-level",
        pieces=[named.get(token_id, b"") for token_id in range(max(named) + 1)],
        named=len(named),
        authority=Tiktoken(_encoding(path, ranks, ids), frozenset(named)),
        eos_token_id=eos,
        special_token_ids=tuple(sorted(special)) if config is None else special_token_ids(config, id_of),
        added_token_ids=tuple(sorted(special)),
        origins={
            "special_token_ids": "added_tokens.json"
            if config is None
            else "tokenizer_config.json: the tokens it names",
            **({} if eos is None else {"eos_token_id": "tokenizer_config.json: eos_token"}),
        },
        unknown=_unknown(config),
    )


def _entries(path: Path, content: bytes) -> Iterator[tuple[int, bytes]]:
    if content.count(b"\n") > MAX_SIZE:
        raise BuildError(f"{path}: more than {MAX_SIZE} lines")
    for number, line in enumerate(io.BytesIO(content), start=1):
        text = line.rstrip(b"\r\n")
        if not text:
            continue
        found = _LINE.fullmatch(text)
        if found is None:
            raise BuildError(f"{path}: line {number}: no token in base64 and its rank")
        yield int(found[2]), found[1]


def _special_tokens(path: Path, config: TokenizerConfig | None, base: int) -> dict[int, str]:
    """Id → text of the special tokens, the first of which follows the ranks."""
    special = {token_id: token.content for token_id, token in added_tokens(path.parent, config).items()}
    if not special:
        raise BuildError(
            f"{path}: its special tokens are not known; "
            "list them in tokenizer_config.json as added_tokens_decoder: {id: {content: …}}"
        )
    if any(module in _code(config) for module in _MOONSHOT):
        beyond = [token_id for token_id in special if not base <= token_id < base + _RESERVED]
        if beyond:
            raise BuildError(
                f"{path}: {base} ranks, but {special[beyond[0]]!r} is added as {beyond[0]}, "
                f"and special tokens are the {_RESERVED} after the ranks; the file is cut, or another's"
            )
        special = {n: special.get(n, f"<|reserved_token_{n}|>") for n in range(base, base + _RESERVED)}
        if len(set(special.values())) < len(special):
            raise BuildError(f"{path}: an added token has the name of a reserved one")
    return special


def _code(config: TokenizerConfig | None) -> str:
    """What tokenizer_config.json names as the tokenizer's own code."""
    code = config.field("auto_map") if config is not None else None
    return json.dumps(code) if code else ""


def _unknown(config: TokenizerConfig | None) -> tuple[str, ...]:
    if config is None:
        return ("no tokenizer_config.json: all added tokens are skipped",)
    code = _code(config)
    if code and not any(module in code for module in _MOONSHOT):
        return ("the tokenizer's own code is not executed: what it adds and no file lists has no text",)
    return ()


def _encoding(path: Path, ranks: dict[bytes, int], special: dict[str, int]) -> tiktoken.Encoding:
    with build_extra(path):
        import tiktoken
    try:
        return tiktoken.Encoding(path.name, pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special)
    except Exception as error:
        # A bare Exception is what the library raises.
        raise BuildError(f"{path}: the tiktoken library refuses it: {error}") from error
