"""tokenizer.json of the `tokenizers` library."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel
from tokenizers import Tokenizer

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import LayerError, first_line
from layer_compiler.model_files.reading import parse_json, read_file, validate
from layer_compiler.model_files.tokenizer_config import (
    AddedToken,
    TokenId,
    TokenizerConfig,
    find_eos_token_id,
    find_special_token_ids,
)

from .decoder import compile_pieces, find_byte_tokens, find_rule, strips_leading_space
from .parsed import ParsedTokenizer, ReferenceLibrary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from layer_compiler.model_files.model_config import Configuration

__all__ = ["find", "parse"]

NAME: Final = "tokenizer.json"


class IdentifiedToken(AddedToken):
    """An entry of `added_tokens`."""

    id: TokenId


class AddedTokens(BaseModel):
    """The fields of tokenizer.json that are checked here. The `tokenizers` library reads the others."""

    added_tokens: list[IdentifiedToken]


class Tokenizers(ReferenceLibrary):
    """The `tokenizers` library."""

    name = "tokenizers"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[list[int]]:
        """Return a text's token ids, without special tokens and with them."""
        return [self._tokenizer.encode(text, add_special_tokens=special).ids for special in (False, True)]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=False)

    def comparable(self, run: bytes, *, starts_text: bool) -> slice:  # noqa: ARG002
        """Return what follows the complete characters, which the library replaces unless a run is UTF-8."""
        try:
            run.decode()
        except UnicodeDecodeError as error:
            return slice(error.start, None)
        return slice(None)


def find(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the file, if it exists."""
    return folder / NAME if NAME in names else None


def parse(path: Path, configuration: Configuration) -> ParsedTokenizer:
    """Parse tokenizer.json as transformers loads it, with the flags of tokenizer_config.json.

    Raises:
        LayerError: The file is malformed, or the `tokenizers` library refuses it.
    """
    config = configuration.tokenizer
    content = read_file(path)
    definition = parse_json(path, content)
    definition["added_tokens"] = _merge_added_tokens(path, definition, config)
    try:
        tokenizer = Tokenizer.from_str(json.dumps(definition))
        vocab = tokenizer.get_vocab(with_added_tokens=True)
        # The library reads short forms and writes the full one.
        definition["decoder"] = tokenizer.decoder and json.loads(tokenizer.decoder.__getstate__())
    except Exception as error:
        # The library raises a bare Exception.
        raise LayerError(f"{path}: tokenizers refuses it: {first_line(error)}") from error
    size = max(vocab.values(), default=-1) + 1
    if size > MAX_SIZE:
        raise LayerError(f"{path}: {size} ids; a vocabulary has from 1 to {MAX_SIZE}")
    # If two tokens have one id, the library decides which it is.
    tokens = {token_id: tokenizer.id_to_token(token_id) or "" for token_id in vocab.values()}
    rule = find_rule(definition)
    eos = find_eos_token_id(config, tokenizer.token_to_id)
    added = tokenizer.get_added_tokens_decoder()
    if config is None:
        special = tuple(sorted(token_id for token_id, token in added.items() if token.special))
        special_origin = f"{NAME}: added_tokens flagged special"
    else:
        special = find_special_token_ids(config, tokenizer.token_to_id)
        special_origin = "tokenizer_config.json: the tokens it names"
    return ParsedTokenizer(
        format="tokenizer.json",
        path=path,
        sha256=hashlib.sha256(content).hexdigest(),
        rule=rule,
        pieces=compile_pieces(definition, tokenizer, tokens, size),
        named=len(tokens),
        library=Tokenizers(tokenizer),
        eos_token_id=eos,
        special_token_ids=special,
        # Those that the library keeps: it drops empty and repeated tokens, and closes gaps between ids.
        added_token_ids=tuple(sorted(added)),
        byte_token_ids=find_byte_tokens(definition, tokens),
        strip_leading_space=rule == "byte-fallback" and strips_leading_space(definition),
        tokenizer_json=json.dumps(definition, ensure_ascii=False).encode() if rule == "tokenizers" else b"",
        origins={
            "special_token_ids": special_origin,
            **({} if eos is None else {"eos_token_id": "tokenizer_config.json: eos_token"}),
        },
        warnings=()
        if config is not None
        else ("no tokenizer_config.json: all tokens flagged special are skipped",),
    )


def _merge_added_tokens(
    path: Path, definition: dict[str, Any], config: TokenizerConfig | None
) -> list[dict[str, Any]]:
    """Return the added tokens, with those of `added_tokens_decoder` in tokenizer_config.json over them."""
    listed = validate(AddedTokens, path, {"added_tokens": definition.get("added_tokens") or []}).added_tokens
    added: dict[int, AddedToken] = {token.id: token for token in listed}
    if len(added) < len(listed):
        raise LayerError(f"{path}: added_tokens has an id twice")
    overrides = (config.added_tokens_decoder if config is not None else None) or {}
    added |= {int(token_id): token for token_id, token in overrides.items()}
    return [{**added[token_id].model_dump(), "id": token_id} for token_id in sorted(added)]
