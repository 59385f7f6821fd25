"""tokenizer.json, of the `tokenizers` library."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel
from tokenizers import Tokenizer

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import BuildError
from layer_compiler.model_files.configuration import (
    AddedToken,
    TokenId,
    TokenizerConfig,
    eos_token_id,
    special_token_ids,
)
from layer_compiler.model_files.reading import checked, read_object

from .decoder import byte_tokens, pieces, rule_of, strips_leading_space
from .parsed import Tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from layer_compiler.model_files.configuration import Configuration

__all__ = ["find", "read"]

NAME: Final = "tokenizer.json"


class IdentifiedToken(AddedToken):
    """A token of `added_tokens`."""

    id: TokenId


class AddedTokens(BaseModel):
    """What is read of tokenizer.json itself; the `tokenizers` library reads the rest."""

    added_tokens: list[IdentifiedToken]


class TokenizersLibrary:
    """The `tokenizers` library, as the authority."""

    library: Final = "tokenizers"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[list[int]]:
        """The ids of a text, without special tokens and with them."""
        return [self._tokenizer.encode(text, add_special_tokens=special).ids for special in (False, True)]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids."""
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=False)

    def agrees(self, run: bytes, *, starts_text: bool) -> slice:  # noqa: ARG002
        """What follows the complete characters, where a run is no UTF-8: the library takes those back, too
        (`derender.detokenizer`).
        """
        try:
            run.decode()
        except UnicodeDecodeError as error:
            return slice(error.start, None)
        return slice(None)


def find(folder: Path, names: Sequence[str]) -> Path | None:
    """The file, if it is there."""
    return folder / NAME if NAME in names else None


def read(path: Path, configuration: Configuration) -> Tokens:
    """Read tokenizer.json as transformers loads it, with the flags of tokenizer_config.json.

    Raises:
        BuildError: The file is malformed, or the `tokenizers` library refuses it.
    """
    config = configuration.tokenizer
    definition = read_object(path)
    definition["added_tokens"] = _added_tokens(path, definition, config)
    try:
        tokenizer = Tokenizer.from_str(json.dumps(definition))
        vocab = tokenizer.get_vocab(with_added_tokens=True)
        # As the library writes it: it reads shorter forms, too.
        decoder = tokenizer.decoder and json.loads(tokenizer.decoder.__getstate__())
    except Exception as error:
        # A bare Exception is what the library raises.
        raise BuildError(f"{path}: the tokenizers library refuses it: {error}") from error
    definition["decoder"] = decoder
    size = max(vocab.values(), default=-1) + 1
    if size > MAX_SIZE:
        raise BuildError(f"{path}: {size} ids; a vocabulary has from 1 to {MAX_SIZE}")
    # By id: two names of one id are settled as the library does.
    tokens = {token_id: tokenizer.id_to_token(token_id) or "" for token_id in vocab.values()}
    rule = rule_of(definition)
    eos = eos_token_id(config, tokenizer.token_to_id)
    added = tokenizer.get_added_tokens_decoder()
    if config is None:
        # The flags are all there is.
        special = tuple(sorted(token_id for token_id, token in added.items() if token.special))
        said_special = f"{NAME}: added_tokens flagged special"
    else:
        special = special_token_ids(config, tokenizer.token_to_id)
        said_special = "tokenizer_config.json: the tokens it names"
    return Tokens(
        format="tokenizer.json",
        path=path,
        sha256=_sha256(path),
        rule=rule,
        pieces=pieces(definition, tokenizer, tokens, size),
        named=len(tokens),
        authority=TokenizersLibrary(tokenizer),
        eos_token_id=eos,
        special_token_ids=special,
        # As the library takes them: it drops empty and repeated ones, and closes gaps between the ids.
        added_token_ids=tuple(sorted(added)),
        byte_token_ids=byte_tokens(definition, tokens),
        strip_leading_space=rule == "byte-fallback" and strips_leading_space(definition),
        tokenizer_json=json.dumps(definition, ensure_ascii=False).encode() if rule == "tokenizers" else b"",
        origins={
            "special_token_ids": said_special,
            **({} if eos is None else {"eos_token_id": "tokenizer_config.json: eos_token"}),
        },
        unknown=()
        if config is not None
        else ("no tokenizer_config.json: all tokens flagged special are skipped",),
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _added_tokens(
    path: Path, definition: dict[str, Any], config: TokenizerConfig | None
) -> list[dict[str, Any]]:
    """The added tokens, where tokenizer_config.json overrides and adds (`added_tokens_decoder`)."""
    listed = checked(AddedTokens, path, {"added_tokens": definition.get("added_tokens") or []})
    added: dict[int, AddedToken] = {token.id: token for token in listed.added_tokens}
    if len(added) < len(listed.added_tokens):
        raise BuildError(f"{path}: added_tokens names an id twice")
    added |= {
        int(token_id): token for token_id, token in ((config and config.added_tokens_decoder) or {}).items()
    }
    return [{**added[token_id].model_dump(), "id": token_id} for token_id in sorted(added)]
