"""tiktoken ranks (`*.tiktoken`, `tiktoken.model`), with the special tokens of tokenizer_config.json.

Each line holds a token in base64, a space and the token's rank. The file lists no special tokens. Those that
the model's own code adds are unknown unless tokenizer_config.json lists them, because no code is executed.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from typing import TYPE_CHECKING, Final

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import LayerError, explain_missing_package, first_line
from layer_compiler.model_files.filenames import TIKTOKEN, match_names
from layer_compiler.model_files.reading import read_file
from layer_compiler.model_files.tokenizer_config import (
    find_eos_token_id,
    find_special_token_ids,
    read_added_tokens,
)

from .byte_pairs import PATTERN, read_byte_pairs
from .parsed import ParsedTokenizer, ReferenceLibrary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import tiktoken

    from layer_compiler.model_files.model_config import Configuration
    from layer_compiler.model_files.tokenizer_config import TokenizerConfig

__all__ = ["find", "is_ranks", "parse"]

_LINE: Final = re.compile(rb"([A-Za-z0-9+/]+={0,2}) ([0-9]{1,7})")
_SAMPLE_BYTES: Final = 4096
"""How much of a file is read to recognize it."""
_MOONSHOT: Final = ("tokenization_kimi.", "tokenization_moonshot.")
"""Tokenizers that name each of the ids after the ranks."""
_RESERVED: Final = 256
"""How many ids they name (`TikTokenTokenizer.num_reserved_special_tokens` in both)."""


class Tiktoken(ReferenceLibrary):
    """The `tiktoken` library."""

    name = "tiktoken"

    def __init__(self, encoding: tiktoken.Encoding, token_ids: frozenset[int]) -> None:
        self._encoding = encoding
        self._token_ids = token_ids

    def encode(self, text: str) -> list[list[int]]:
        """Return a text's token ids, without special tokens and with those that it spells."""
        return [
            self._encoding.encode(text, disallowed_special=()),
            self._encoding.encode(text, allowed_special="all"),
        ]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        return self._encoding.decode([token_id for token_id in token_ids if token_id in self._token_ids])


def find(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the file of ranks. tokenizer.model is one too, if it begins as ranks do (Llama 3).

    Raises:
        LayerError: There are several.
    """
    found = match_names(names, TIKTOKEN)
    if not found and "tokenizer.model" in names and is_ranks(folder / "tokenizer.model"):
        found = ["tokenizer.model"]
    if len(found) > 1:
        raise LayerError(f"{folder}: several files of tiktoken ranks: {', '.join(found)}; keep one")
    return folder / found[0] if found else None


def is_ranks(path: Path) -> bool:
    """Return whether a file begins as ranks do."""
    try:
        with path.open("rb") as file:
            return _LINE.fullmatch(file.read(_SAMPLE_BYTES).partition(b"\n")[0].rstrip()) is not None
    except OSError:
        return False


def parse(path: Path, configuration: Configuration) -> ParsedTokenizer:
    """Parse a file of ranks.

    Raises:
        LayerError: The file is malformed, or its special tokens are unknown.
    """
    config = configuration.tokenizer
    content = read_file(path)
    ranks = read_byte_pairs(path, _read_lines(path, content))
    special = _read_special_tokens(path, config, len(ranks))
    pieces = {rank: token for token, rank in ranks.items()}
    for token_id, text in special.items():
        if token_id in pieces:
            raise LayerError(f"{path}: {text!r} is added as {token_id}, which is already a rank")
        pieces[token_id] = text.encode()
    for rank in range(max(ranks.values())):
        if rank not in pieces:
            raise LayerError(f"{path}: rank {rank} is missing")
    ids = {text: token_id for token_id, text in special.items()}

    def find_id(text: str) -> int | None:
        return ids[text] if text in ids else ranks.get(text.encode())

    eos = find_eos_token_id(config, find_id)
    return ParsedTokenizer(
        format="tiktoken",
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        rule="byte-level",
        pieces=[pieces.get(token_id, b"") for token_id in range(max(pieces) + 1)],
        named=len(pieces),
        library=Tiktoken(_load_library(path, ranks, ids), frozenset(pieces)),
        eos_token_id=eos,
        special_token_ids=tuple(sorted(special)) if config is None else find_special_token_ids(config, find_id),
        added_token_ids=tuple(sorted(special)),
        origins={
            "special_token_ids": "added_tokens.json"
            if config is None
            else "tokenizer_config.json: the tokens it names",
            **({} if eos is None else {"eos_token_id": "tokenizer_config.json: eos_token"}),
        },
        warnings=_warn(config),
    )


def _read_lines(path: Path, content: bytes) -> Iterator[tuple[int, bytes]]:
    if content.count(b"\n") > MAX_SIZE:
        raise LayerError(f"{path}: more than {MAX_SIZE} lines")
    for number, line in enumerate(io.BytesIO(content), start=1):
        text = line.rstrip(b"\r\n")
        if not text:
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise LayerError(f"{path}: line {number}: expected a token in base64 and its rank")
        yield int(match[2]), match[1]


def _read_special_tokens(path: Path, config: TokenizerConfig | None, base: int) -> dict[int, str]:
    """Return the special tokens by id. The first follows the ranks, of which there are `base`."""
    special = {token_id: token.content for token_id, token in read_added_tokens(path.parent, config).items()}
    if not special:
        raise LayerError(
            f"{path}: its special tokens are unknown; "
            "list them in tokenizer_config.json as added_tokens_decoder: {id: {content: …}}"
        )
    if any(module in _find_code(config) for module in _MOONSHOT):
        beyond = [token_id for token_id in special if not base <= token_id < base + _RESERVED]
        if beyond:
            raise LayerError(
                f"{path}: {special[beyond[0]]!r} is added as {beyond[0]}, but special tokens are the "
                f"{_RESERVED} ids after the {base} ranks; the file is incomplete or another model's"
            )
        special = {n: special.get(n, f"<|reserved_token_{n}|>") for n in range(base, base + _RESERVED)}
        if len(set(special.values())) < len(special):
            raise LayerError(f"{path}: an added token has the name of a reserved one")
    return special


def _find_code(config: TokenizerConfig | None) -> str:
    """Return the modules that tokenizer_config.json names as the tokenizer's own code."""
    code = config.extra_field("auto_map") if config is not None else None
    return json.dumps(code) if code else ""


def _warn(config: TokenizerConfig | None) -> tuple[str, ...]:
    if config is None:
        return ("no tokenizer_config.json: all added tokens are skipped",)
    code = _find_code(config)
    if code and not any(module in code for module in _MOONSHOT):
        return ("the tokenizer's own code is not executed: tokens that only the code adds have no text",)
    return ()


def _load_library(path: Path, ranks: dict[bytes, int], special: dict[str, int]) -> tiktoken.Encoding:
    with explain_missing_package(path):
        import tiktoken
    try:
        return tiktoken.Encoding(path.name, pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special)
    except Exception as error:
        # The library raises a bare Exception.
        raise LayerError(f"{path}: tiktoken refuses it: {first_line(error)}") from error
