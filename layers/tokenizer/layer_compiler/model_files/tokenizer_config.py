"""tokenizer_config.json: added tokens, special tokens, the end of a sequence, a response template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import LayerError

from .reading import read_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    FindId = Callable[[str], int | None]
    """Returns a token's id, or None if there is no such token."""

__all__ = [
    "AddedToken",
    "TokenId",
    "TokenizerConfig",
    "find_eos_token_id",
    "find_special_token_ids",
    "read_added_tokens",
]

TokenId = Annotated[int, Field(ge=0, lt=MAX_SIZE, strict=True)]
TokenIdKey = Annotated[str, StringConstraints(pattern="^[0-9]{1,7}$")]
NamedToken = str | dict[str, Any]
NamedTokens = list[NamedToken]


class AddedToken(BaseModel):
    """An entry of `added_tokens` or `added_tokens_decoder`."""

    model_config = ConfigDict(extra="ignore")

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


class TokenizerConfig(BaseModel):
    """tokenizer_config.json. Any field whose name ends in `_token` names a special token."""

    model_config = ConfigDict(extra="allow")

    added_tokens_decoder: dict[TokenIdKey, AddedToken] | None = None
    additional_special_tokens: NamedTokens | None = None
    extra_special_tokens: NamedTokens | dict[str, NamedToken] | None = None
    model_specific_special_tokens: NamedTokens | dict[str, NamedToken] | None = None
    model_max_length: float | None = None
    response_template: dict[str, Any] | None = None
    """How transformers parses a response. It is stored in no other file (`PreTrainedTokenizerBase`)."""

    @field_validator("response_template")
    @classmethod
    def _refuse_what_json_can_not_hold(cls, template: dict[str, Any] | None) -> dict[str, Any] | None:
        """Refuse values that Python's JSON reader accepts but a manifest can't hold."""
        try:
            unchanged = msgspec.json.decode(msgspec.json.encode(template)) == template
        except (OverflowError, RecursionError, UnicodeError) as error:
            raise ValueError(f"not JSON: {error}") from error
        if not unchanged:
            raise ValueError("not JSON: a number is not finite")
        return template

    @property
    def named_tokens(self) -> dict[str, str]:
        """The special tokens by the names that a chat template has for them, such as `bos_token`."""
        named = {
            name: _text(token) for name, token in (self.model_extra or {}).items() if name.endswith("_token")
        }
        return {name: text for name, text in named.items() if text is not None}

    def extra_field(self, name: str) -> Any:
        """Return a field that is not declared here, or None."""
        return (self.model_extra or {}).get(name)


class AddedTokensFile(BaseModel):
    """added_tokens.json, of older tokenizers: token → id."""

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, TokenId] = Field(init=False)


def read_added_tokens(folder: Path, config: TokenizerConfig | None) -> dict[int, AddedToken]:
    """Read the tokens that a model adds to a tokenizer whose own file can't list them.

    They are in `added_tokens_decoder` of tokenizer_config.json, or else in added_tokens.json
    (transformers, `PreTrainedTokenizerBase._from_pretrained`).

    Returns:
        The added tokens by id, in order.

    Raises:
        LayerError: An id or token is repeated, out of range or empty, or added_tokens.json is malformed.
    """
    if config is not None and config.added_tokens_decoder is not None:
        path = folder / "tokenizer_config.json"
        listed = [(int(token_id), token) for token_id, token in config.added_tokens_decoder.items()]
    else:
        path = folder / "added_tokens.json"
        file = read_config(AddedTokensFile, path)
        tokens = (file.model_extra or {}) if file is not None else {}
        listed = [(token_id, AddedToken(content=content)) for content, token_id in tokens.items()]
    added = dict(sorted(listed, key=lambda pair: pair[0]))
    if len(added) < len(listed):
        raise LayerError(f"{path}: an id is added twice")
    if len({token.content for token in added.values()}) < len(added):
        raise LayerError(f"{path}: a token is added twice")
    if (largest := max(added, default=0)) >= MAX_SIZE:
        raise LayerError(f"{path}: id {largest} is added; ids must be less than {MAX_SIZE}")
    if not all(token.content for token in added.values()):
        raise LayerError(f"{path}: an added token is empty")
    return added


def find_eos_token_id(config: TokenizerConfig | None, find_id: FindId) -> int | None:
    """Return the id of `eos_token`, or None if it is not set or is no token."""
    return next(_find_ids(find_id, [config.extra_field("eos_token")] if config is not None else []), None)


def find_special_token_ids(config: TokenizerConfig, find_id: FindId) -> tuple[int, ...]:
    """Return the ids that `skip_special_tokens` leaves out.

    These are the tokens that tokenizer_config.json names (`all_special_ids` of transformers), not all that are
    flagged special: markers of reasoning and tool calls are often flagged but not named.
    """
    named = [token for name, token in (config.model_extra or {}).items() if name.endswith("_token")]
    for tokens in (
        config.additional_special_tokens,
        config.extra_special_tokens,
        config.model_specific_special_tokens,
    ):
        named += tokens.values() if isinstance(tokens, dict) else tokens or ()
    return tuple(sorted(set(_find_ids(find_id, named))))


def _find_ids(find_id: FindId, tokens: Iterable[Any]) -> Iterator[int]:
    """Yield the ids of tokens that are written as a string or as an object with `content`."""
    for token in tokens:
        text = _text(token)
        token_id = None if text is None else find_id(text)
        if token_id is not None:
            yield token_id


def _text(token: Any) -> str | None:
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None
