"""A model's configuration: stop ids, number of ids, longest sequence.

Precedence follows vLLM. Stop ids come from generation_config.json if it exists, otherwise from config.json. The
longest sequence is the least of the fields that give one, scaled as the rotary embedding is, and at most the
tokenizer's `model_max_length`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from derender.vocabulary import MAX_SIZE

from .reading import read_config
from .tokenizer_config import TokenId, TokenizerConfig

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Configuration", "read_configuration"]

UNBOUNDED: Final = 10**9
"""Lengths from here on mean "no limit": transformers writes 10**30."""
LENGTH_FIELDS: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
"""Fields that give a model's length (vLLM, `derive_max_model_len_and_key`)."""
UNSCALED: Final = ("su", "longrope", "llama3")
"""Kinds of rotary scaling that those fields already include (vLLM, `_get_and_verify_max_len`)."""


class RopeScaling(BaseModel):
    """How the rotary embedding is scaled, for all layers or for one kind of layer."""

    model_config = ConfigDict(extra="ignore")

    rope_type: str | None = None
    type: str | None = None
    factor: float | None = None
    original_max_position_embeddings: float | None = None


class ModelConfig(BaseModel):
    """config.json, generation_config.json or Mistral's params.json."""

    model_config = ConfigDict(extra="ignore")

    model_type: str | None = None
    vocab_size: Annotated[int, Field(ge=1, le=MAX_SIZE, strict=True)] | None = None
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
    """The older name of `rope_parameters`."""
    yarn: RopeScaling | None = None
    """Only in params.json."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A model's configuration files."""

    tokenizer: TokenizerConfig | None
    embedding_rows: int | None
    """Rows of the embedding table: the ids that the model can emit."""
    stop_token_ids: frozenset[int]
    """Ids that end a generation, without the tokenizer's own."""
    max_model_len: int | None
    origins: dict[str, str]
    """Field of the manifest → the file and field that gave it."""
    warnings: tuple[str, ...]
    """Missing facts and their consequences."""


def read_configuration(folder: Path) -> Configuration:
    """Read tokenizer_config.json, generation_config.json, and config.json or else params.json.

    Raises:
        LayerError: A file is malformed.
    """
    tokenizer = read_config(TokenizerConfig, folder / "tokenizer_config.json")
    generation = read_config(ModelConfig, folder / "generation_config.json")
    name = "config.json"
    model = read_config(ModelConfig, folder / name)
    if model is None and (params := read_config(ModelConfig, folder / "params.json")) is not None:
        # Mistral's consolidated checkpoints have no config.json.
        name, model = "params.json", params
    model = model or ModelConfig()

    origins: dict[str, str] = {}
    if model.vocab_size is not None:
        origins["size"] = f"{name}: vocab_size"
    # If generation_config.json exists, transformers reads no other file for its fields.
    stop_file, stop = (
        (name, model.eos_token_id)
        if generation is None
        else ("generation_config.json", generation.eos_token_id)
    )
    if stop is not None:
        origins["stop_token_ids"] = f"{stop_file}: eos_token_id"
    length, length_origin = _max_model_len(model, name, tokenizer)
    if length is not None:
        origins["max_model_len"] = length_origin
    if tokenizer is not None and tokenizer.response_template is not None:
        origins["response_template"] = "tokenizer_config.json: response_template"
    return Configuration(
        tokenizer=tokenizer,
        embedding_rows=model.vocab_size,
        stop_token_ids=frozenset(stop if isinstance(stop, list) else [] if stop is None else [stop]),
        max_model_len=length,
        origins=origins,
        warnings=()
        if stop is not None
        else ("no eos_token_id in a configuration file: only the tokenizer's own ends a generation",),
    )


def _max_model_len(model: ModelConfig, name: str, tokenizer: TokenizerConfig | None) -> tuple[int | None, str]:
    """Return the longest sequence, and the file and field that gave it."""
    lengths = {field: _bounded(getattr(model, field)) for field in LENGTH_FIELDS}
    given = {field: length for field, length in lengths.items() if length is not None}
    field = min(given, key=given.__getitem__, default="")
    length = given.get(field)
    if (own := _bounded(model.model_max_length)) is not None:
        field, length = "model_max_length", own
    origin = f"{name}: {field}"
    # Gemma 3 gives its length after scaling.
    if length is not None and "gemma3" not in (model.model_type or ""):
        factor: float = 1
        for scaling in _scalings(model):
            kind = scaling.rope_type or scaling.type or "default"
            if kind in UNSCALED:
                continue
            factor = scaling.factor if scaling.factor is not None and scaling.factor >= 1 else factor
            original = _bounded(scaling.original_max_position_embeddings)
            length = original if kind == "yarn" and original is not None else length
        if factor != 1:
            length, origin = length * factor, f"{origin}, scaled"
    tokenizer_length = _bounded(tokenizer.model_max_length if tokenizer is not None else None)
    if tokenizer_length is not None and (length is None or tokenizer_length < length):
        length, origin = tokenizer_length, "tokenizer_config.json: model_max_length"
    # A scaled length may be unbounded too.
    return (None, "") if _bounded(length) is None else (int(length or 0), origin)


def _bounded(value: float | None) -> float | None:
    return value if value is not None and 1 <= value < UNBOUNDED else None


def _scalings(model: ModelConfig) -> Iterator[RopeScaling]:
    scaling = model.rope_parameters if model.rope_parameters is not None else model.rope_scaling
    if isinstance(scaling, RopeScaling):
        yield scaling
    elif scaling is not None:
        yield from filter(None, scaling.values())
    elif model.yarn is not None:
        yield model.yarn.model_copy(update={"rope_type": "yarn"})
