"""What a model's configuration files say: ids that end a generation, lengths, and which tokens are special.

Precedence is vLLM's: the ids that end a generation are those of generation_config.json, or where there is no
such file those of config.json, and the tokenizer's own; the length is the least that is given, stretched as the
rotary embedding is, and no more than the tokenizer's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from derender.vocabulary import MAX_SIZE
from layer_compiler.errors import BuildError

from .reading import read_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

__all__ = [
    "AddedToken",
    "Configuration",
    "TokenId",
    "TokenizerConfig",
    "added_tokens",
    "eos_token_id",
    "read_configuration",
    "special_token_ids",
]

UNBOUNDED: Final = 10**9
"""Lengths from here on say "no limit": transformers writes 10**30."""

TokenId = Annotated[int, Field(ge=0, lt=MAX_SIZE, strict=True)]
TokenIdKey = Annotated[str, StringConstraints(pattern="^[0-9]{1,7}$")]
Size = Annotated[int, Field(ge=1, le=MAX_SIZE, strict=True)]
NamedToken = str | dict[str, Any]
NamedTokens = list[NamedToken]

LENGTHS: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
"""Fields that say a model's length (vLLM, `derive_max_model_len_and_key`)."""
UNSTRETCHED: Final = ("su", "longrope", "llama3")
"""Kinds of rotary scaling whose length is in those fields already (vLLM, `_get_and_verify_max_len`)."""


class AddedToken(BaseModel):
    """A token of `added_tokens` (with an id) or of `added_tokens_decoder` (named by it)."""

    model_config = ConfigDict(extra="ignore")

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


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

    def field(self, name: str) -> Any:
        """A field that has no place of its own; None where it is not there."""
        return (self.model_extra or {}).get(name)


class AddedTokensFile(BaseModel):
    """What is read of added_tokens.json, which older tokenizers have: each field is a token."""

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, TokenId] = Field(init=False)


class RopeScaling(BaseModel):
    """How the rotary embedding is stretched (config.json), for one kind of layers or for all."""

    model_config = ConfigDict(extra="ignore")

    rope_type: str | None = None
    type: str | None = None
    factor: float | None = None
    original_max_position_embeddings: float | None = None


class ModelConfig(BaseModel):
    """What is read of config.json, generation_config.json and params.json."""

    model_config = ConfigDict(extra="ignore")

    model_type: str | None = None
    vocab_size: Size | None = None
    eos_token_id: TokenId | list[TokenId] | None = None
    max_position_embeddings: float | None = None
    n_positions: float | None = None
    max_seq_len: float | None = None
    seq_length: float | None = None
    max_target_positions: float | None = None
    max_sequence_length: float | None = None
    max_seq_length: float | None = None
    seq_len: float | None = None
    model_max_length: float | None = None
    rope_parameters: RopeScaling | dict[str, RopeScaling | None] | None = None
    rope_scaling: RopeScaling | dict[str, RopeScaling | None] | None = None
    yarn: RopeScaling | None = None
    """Mistral's params.json."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a folder's configuration files say."""

    tokenizer: TokenizerConfig | None
    """tokenizer_config.json."""
    rows: int | None
    """Rows of the model's embedding table."""
    stop_token_ids: frozenset[int]
    """Ids that end a generation, beside the tokenizer's own."""
    max_model_len: int | None
    origins: dict[str, str]
    """Field of a manifest → the file and the field that said it."""
    unknown: tuple[str, ...]
    """What is not said, and what follows."""


def read_configuration(folder: Path) -> Configuration:
    """Read tokenizer_config.json, generation_config.json, and config.json or else params.json.

    Raises:
        BuildError: One that is there is malformed.
    """
    tokenizer = read_model(TokenizerConfig, folder / "tokenizer_config.json")
    generation = read_model(ModelConfig, folder / "generation_config.json")
    name = "config.json"
    model = read_model(ModelConfig, folder / name)
    if model is None and (folder / "params.json").is_file():
        # A consolidated checkpoint of Mistral's.
        name = "params.json"
        model = read_model(ModelConfig, folder / name)
    model = model or ModelConfig()

    origins: dict[str, str] = {}
    if model.vocab_size is not None:
        origins["size"] = f"{name}: vocab_size"
    # Where there is a generation_config.json, transformers reads no other file for it.
    said_by, stop = (
        (name, model.eos_token_id)
        if generation is None
        else ("generation_config.json", generation.eos_token_id)
    )
    if stop is not None:
        origins["stop_token_ids"] = f"{said_by}: eos_token_id"
    length, said_length = _max_model_len(model, name, tokenizer)
    if length is not None:
        origins["max_model_len"] = said_length
    if tokenizer is not None and tokenizer.response_template is not None:
        origins["response_template"] = "tokenizer_config.json: response_template"
    return Configuration(
        tokenizer=tokenizer,
        rows=model.vocab_size,
        stop_token_ids=frozenset(stop if isinstance(stop, list) else [] if stop is None else [stop]),
        max_model_len=length,
        origins=origins,
        unknown=()
        if stop is not None
        else ("no eos_token_id in a configuration file: only the tokenizer's own ends a text",),
    )


def _max_model_len(model: ModelConfig, name: str, tokenizer: TokenizerConfig | None) -> tuple[int | None, str]:
    """The longest sequence, and what said it."""
    given = {field: _length(getattr(model, field)) for field in LENGTHS}
    said = {field: length for field, length in given.items() if length is not None}
    field = min(said, key=said.__getitem__, default="")
    length = said.get(field)
    if (own := _length(model.model_max_length)) is not None:
        field, length = "model_max_length", own
    origin = f"{name}: {field}"
    # Gemma 3 says its length as stretched.
    if length is not None and "gemma3" not in (model.model_type or ""):
        factor: float = 1
        for scaling in _scalings(model):
            kind = scaling.rope_type or scaling.type or "default"
            if kind in UNSTRETCHED:
                # LongRoPE may be served short, too; this is the most that it takes.
                continue
            factor = scaling.factor if scaling.factor is not None and scaling.factor >= 1 else factor
            if kind == "yarn" and (original := _length(scaling.original_max_position_embeddings)) is not None:
                length = original
        if factor != 1:
            length, origin = length * factor, f"{origin}, stretched"
    cap = _length(tokenizer.model_max_length if tokenizer is not None else None)
    if cap is not None and (length is None or cap < length):
        length, origin = cap, "tokenizer_config.json: model_max_length"
    # A product may be beyond what says "no limit".
    return (None, "") if _length(length) is None else (int(length or 0), origin)


def _length(value: float | None) -> float | None:
    return value if value is not None and 1 <= value < UNBOUNDED else None


def _scalings(model: ModelConfig) -> Iterator[RopeScaling]:
    for scaling in (model.rope_parameters, model.rope_scaling):
        if isinstance(scaling, RopeScaling):
            yield scaling
        elif scaling is not None:
            yield from filter(None, scaling.values())
        if scaling is not None:
            # Two names of the same, newer and older.
            return
    if model.yarn is not None:
        yield model.yarn.model_copy(update={"rope_type": "yarn"})


def added_tokens(folder: Path, config: TokenizerConfig | None) -> dict[int, AddedToken]:
    """Tokens that are added to a tokenizer whose own file has no place for them, by id.

    Those of `added_tokens_decoder` in tokenizer_config.json; where it has none, of added_tokens.json
    (transformers, `PreTrainedTokenizerBase._from_pretrained`).

    Raises:
        BuildError: An id or a token is there twice or is none, or added_tokens.json is malformed.
    """
    if config is not None and config.added_tokens_decoder is not None:
        path = folder / "tokenizer_config.json"
        listed = [(int(token_id), token) for token_id, token in config.added_tokens_decoder.items()]
    else:
        path = folder / "added_tokens.json"
        file = read_model(AddedTokensFile, path)
        tokens = (file.model_extra or {}) if file is not None else {}
        listed = [(token_id, AddedToken(content=content)) for content, token_id in tokens.items()]
    added = dict(sorted(listed, key=lambda pair: pair[0]))
    if len(added) < len(listed):
        raise BuildError(f"{path}: an id is added twice")
    if len({token.content for token in added.values()}) < len(added):
        raise BuildError(f"{path}: a token is added twice")
    if (last := max(added, default=0)) >= MAX_SIZE:
        raise BuildError(f"{path}: {last} is added; ids are from 0 to {MAX_SIZE - 1}")
    if not all(token.content for token in added.values()):
        raise BuildError(f"{path}: an added token is empty")
    return added


def eos_token_id(config: TokenizerConfig | None, id_of: Callable[[str], int | None]) -> int | None:
    """The id that tokenizer_config.json names as the end of a sequence.

    Args:
        config: The file.
        id_of: Token → id, None where there is none.
    """
    return next(_ids(id_of, [config.field("eos_token")] if config is not None else []), None)


def special_token_ids(config: TokenizerConfig, id_of: Callable[[str], int | None]) -> tuple[int, ...]:
    """The ids that `skip_special_tokens` leaves out.

    Those are the tokens that tokenizer_config.json names (`all_special_ids` of transformers), not all that are
    flagged special: a model's markers, of reasoning and of tools, are often flagged and not named.

    Args:
        config: The file.
        id_of: Token → id, None where there is none.
    """
    named = [token for name, token in (config.model_extra or {}).items() if name.endswith("_token")]
    for more in (
        config.additional_special_tokens,
        config.extra_special_tokens,
        config.model_specific_special_tokens,
    ):
        named += more.values() if isinstance(more, dict) else more or ()
    return tuple(sorted(set(_ids(id_of, named))))


def _ids(id_of: Callable[[str], int | None], tokens: Iterable[Any]) -> Iterator[int]:
    """The ids of tokens written as a string or as an object; what is neither, or unknown, has none."""
    for token in tokens:
        content = token.get("content") if isinstance(token, dict) else token
        token_id = id_of(content) if isinstance(content, str) else None
        if token_id is not None:
            yield token_id
