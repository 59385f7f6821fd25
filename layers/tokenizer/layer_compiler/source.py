"""A Hugging Face tokenizer folder, read into one value."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator
from tokenizers import Tokenizer

from derender.vocabulary import MAX_SIZE

from .errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["Source", "read_folder"]

UNBOUNDED: Final = 10**9
"""Lengths from here on say "no limit": transformers writes 10**30."""

TokenId = Annotated[int, Field(ge=0, lt=MAX_SIZE, strict=True)]
TokenIdKey = Annotated[str, StringConstraints(pattern="^[0-9]{1,7}$")]
Size = Annotated[int, Field(ge=1, le=MAX_SIZE, strict=True)]
NamedToken = str | dict[str, Any]
NamedTokens = list[NamedToken]
ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Source:
    """What a model's files say of its tokenizer."""

    tokenizer: Tokenizer
    """As transformers would load it, with the flags of tokenizer_config.json."""
    definition: dict[str, Any]
    """Its tokenizer.json, likewise."""
    size: int
    """Ids the model can emit: rows of its embedding table, and no less than the tokenizer names."""
    eos_token_id: int | None
    stop_token_ids: tuple[int, ...]
    special_token_ids: tuple[int, ...]
    added_token_ids: tuple[int, ...]
    max_model_len: int | None
    response_template: dict[str, Any] | None
    sha256: str
    unknown: tuple[str, ...]
    """What the folder does not say, and what follows."""


class AddedToken(BaseModel):
    """A token of `added_tokens` (with an id) or of `added_tokens_decoder` (named by it)."""

    model_config = ConfigDict(extra="ignore")

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


class IdentifiedToken(AddedToken):
    """A token of `added_tokens`."""

    id: TokenId


class AddedTokens(BaseModel):
    """What is read of tokenizer.json itself; the `tokenizers` library reads the rest."""

    added_tokens: list[IdentifiedToken]


class TokenizerConfig(BaseModel):
    """What is read of tokenizer_config.json. Any field may name a special token, by a name in `_token`."""

    model_config = ConfigDict(extra="allow")

    added_tokens_decoder: dict[TokenIdKey, AddedToken] | None = None
    additional_special_tokens: NamedTokens | None = None
    extra_special_tokens: NamedTokens | dict[str, NamedToken] | None = None
    model_specific_special_tokens: NamedTokens | dict[str, NamedToken] | None = None
    model_max_length: float | None = None
    response_template: dict[str, Any] | None = None
    """transformers reads and writes it here alone (`PreTrainedTokenizerBase`), in no file of its own."""

    @field_validator("response_template")
    @classmethod
    def _as_it_is(cls, template: dict[str, Any] | None) -> dict[str, Any] | None:
        """Refuse what a manifest would not give back as it is: Python reads more than JSON can say."""
        try:
            same = msgspec.json.decode(msgspec.json.encode(template)) == template
        except (OverflowError, RecursionError, UnicodeError) as error:
            raise ValueError(f"no JSON: {error}") from error
        if not same:
            raise ValueError("no JSON: a number is not finite")
        return template


class ModelConfig(BaseModel):
    """What is read of config.json and generation_config.json."""

    model_config = ConfigDict(extra="ignore")

    vocab_size: Size | None = None
    max_position_embeddings: int | None = None
    eos_token_id: TokenId | list[TokenId] | None = None


def read_folder(folder: Path) -> Source:
    """Read tokenizer.json, and tokenizer_config.json, generation_config.json and config.json where present.

    Raises:
        BuildError: A file is missing, is malformed, or the `tokenizers` library refuses it.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise BuildError(f"{folder}: no tokenizer.json")
    definition = _object(path)
    tokenizer_config = _read(TokenizerConfig, folder / "tokenizer_config.json")
    generation_config = _read(ModelConfig, folder / "generation_config.json") or ModelConfig()
    config = _read(ModelConfig, folder / "config.json") or ModelConfig()

    definition["added_tokens"] = _added_tokens(path, definition, tokenizer_config)
    try:
        tokenizer = Tokenizer.from_str(json.dumps(definition))
        vocab = tokenizer.get_vocab(with_added_tokens=True)
        # As the library writes it: it reads shorter forms, too.
        decoder = tokenizer.decoder and json.loads(tokenizer.decoder.__getstate__())
    except Exception as error:
        # A bare Exception is what the library raises.
        raise BuildError(f"{path}: the tokenizers library refuses it: {error}") from error
    definition["decoder"] = decoder
    size = max(config.vocab_size or 0, max(vocab.values(), default=-1) + 1)
    if not 0 < size <= MAX_SIZE:
        raise BuildError(f"{path}: {size} ids; a vocabulary has from 1 to {MAX_SIZE}")

    eos_token_id = next(_ids(tokenizer, [_extra(tokenizer_config, "eos_token")]), None)
    stop = config.eos_token_id if generation_config.eos_token_id is None else generation_config.eos_token_id
    stop_token_ids = set(stop if isinstance(stop, list) else [] if stop is None else [stop])
    if eos_token_id is not None:
        stop_token_ids.add(eos_token_id)
    lengths: list[float | None] = [config.max_position_embeddings]
    if tokenizer_config is not None:
        lengths.append(tokenizer_config.model_max_length)
    return Source(
        tokenizer=tokenizer,
        definition=definition,
        size=size,
        eos_token_id=eos_token_id,
        stop_token_ids=tuple(sorted(stop_token_ids)),
        special_token_ids=_special_token_ids(tokenizer, tokenizer_config),
        # As the library takes them: it drops empty and repeated ones, and closes gaps between the ids.
        added_token_ids=tuple(sorted(tokenizer.get_added_tokens_decoder())),
        max_model_len=min((int(n) for n in lengths if n is not None and 1 <= n < UNBOUNDED), default=None),
        response_template=tokenizer_config.response_template if tokenizer_config else None,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        unknown=tuple(
            consequence
            for known, consequence in (
                (config.vocab_size, f"no vocab_size in config.json: ids from {size} on are refused"),
                (
                    generation_config.eos_token_id or config.eos_token_id,
                    "no eos_token_id in a configuration file: only the tokenizer's own ends a text",
                ),
                (tokenizer_config, "no tokenizer_config.json: all tokens flagged special are skipped"),
            )
            if known is None
        ),
    )


def _object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BuildError(f"{path}: can't be read: {error}") from error
    if not isinstance(value, dict):
        raise BuildError(f"{path}: no JSON object")
    return value


def _read(model: type[ModelT], path: Path) -> ModelT | None:
    """A configuration file, or None where there is none."""
    if not path.is_file():
        return None
    values = _object(path)
    # Multimodal models keep the language model's configuration within.
    inner = values.get("text_config")
    return _checked(model, path, {**values, **inner} if isinstance(inner, dict) else values)


def _checked(model: type[ModelT], path: Path, values: object) -> ModelT:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, problem["loc"]))
        raise BuildError(f"{path}: {field}: {problem['msg']}") from error


def _added_tokens(
    path: Path, definition: dict[str, Any], config: TokenizerConfig | None
) -> list[dict[str, Any]]:
    """The added tokens, where tokenizer_config.json overrides and adds (`added_tokens_decoder`)."""
    listed = _checked(AddedTokens, path, {"added_tokens": definition.get("added_tokens") or []})
    added: dict[int, AddedToken] = {token.id: token for token in listed.added_tokens}
    if len(added) < len(listed.added_tokens):
        raise BuildError(f"{path}: added_tokens names an id twice")
    added |= {
        int(token_id): token for token_id, token in ((config and config.added_tokens_decoder) or {}).items()
    }
    return [{**added[token_id].model_dump(), "id": token_id} for token_id in sorted(added)]


def _special_token_ids(tokenizer: Tokenizer, config: TokenizerConfig | None) -> tuple[int, ...]:
    """The ids that `skip_special_tokens` leaves out.

    Those are the tokens that tokenizer_config.json names (`all_special_ids` of transformers), not all that are
    flagged special: a model's markers, of reasoning and of tools, are often flagged and not named. Where there
    is no configuration, the flags are all there is.
    """
    if config is None:
        flagged = tokenizer.get_added_tokens_decoder().items()
        return tuple(sorted(token_id for token_id, token in flagged if token.special))
    named = [token for name, token in (config.model_extra or {}).items() if name.endswith("_token")]
    for more in (
        config.additional_special_tokens,
        config.extra_special_tokens,
        config.model_specific_special_tokens,
    ):
        named += more.values() if isinstance(more, dict) else more or ()
    return tuple(sorted(set(_ids(tokenizer, named))))


def _extra(config: TokenizerConfig | None, name: str) -> Any:
    return ((config and config.model_extra) or {}).get(name)


def _ids(tokenizer: Tokenizer, tokens: Iterable[Any]) -> Iterator[int]:
    """The ids of tokens written as a string or as an object; what is neither, or unknown, has none."""
    for token in tokens:
        content = token.get("content") if isinstance(token, dict) else token
        token_id = tokenizer.token_to_id(content) if isinstance(content, str) else None
        if token_id is not None:
            yield token_id
