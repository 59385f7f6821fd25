"""A Hugging Face tokenizer folder, read into one value."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tokenizers import Tokenizer

from .errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["Source", "read_folder"]

UNBOUNDED: Final = 10**9
"""Lengths from here on say "no limit": transformers writes 10**30."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a model's files say of its tokenizer."""

    tokenizer: Tokenizer
    """As transformers would load it, with the flags of tokenizer_config.json."""
    definition: dict[str, Any]
    """Its tokenizer.json."""
    size: int
    """Ids the model can emit: rows of its embedding table, and no less than the tokenizer names."""
    eos_token_id: int | None
    stop_token_ids: tuple[int, ...]
    special_token_ids: tuple[int, ...]
    max_model_len: int | None
    sha256: str


def read_folder(folder: Path) -> Source:
    """Read tokenizer.json, and tokenizer_config.json, generation_config.json and config.json where present.

    Raises:
        BuildError: A file is missing, is no JSON object, or the `tokenizers` library refuses it.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise BuildError(f"{folder}: no tokenizer.json")
    definition = _object(path)
    tokenizer_config = _object(folder / "tokenizer_config.json")
    generation_config = _object(folder / "generation_config.json")
    config = _object(folder / "config.json")
    # Multimodal models keep the language model's configuration within.
    config = {**config, **config["text_config"]} if isinstance(config.get("text_config"), dict) else config

    definition["added_tokens"] = _added_tokens(definition, tokenizer_config)
    try:
        # Newer than a Python exception: a panic in the library is a BaseException.
        tokenizer = Tokenizer.from_str(json.dumps(definition))
    except Exception as error:
        raise BuildError(f"{path}: the tokenizers library refuses it: {error}") from error
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if highest < 0:
        raise BuildError(f"{path}: names no token")

    eos_token_id = _eos_token_id(tokenizer, tokenizer_config)
    stop = generation_config.get("eos_token_id", config.get("eos_token_id"))
    stop_token_ids = {*([] if stop is None else stop if isinstance(stop, list) else [stop])}
    if eos_token_id is not None:
        stop_token_ids.add(eos_token_id)
    size = max(_positive(config, "vocab_size") or 0, highest + 1)
    lengths = [_positive(config, "max_position_embeddings"), _positive(tokenizer_config, "model_max_length")]
    return Source(
        tokenizer=tokenizer,
        definition=definition,
        size=size,
        eos_token_id=eos_token_id,
        stop_token_ids=tuple(sorted(stop_token_ids)),
        special_token_ids=_special_token_ids(tokenizer, tokenizer_config),
        max_model_len=min((n for n in lengths if n is not None and n < UNBOUNDED), default=None),
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def _object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BuildError(f"{path}: can't be read: {error}") from error
    if not isinstance(value, dict):
        raise BuildError(f"{path}: no JSON object")
    return value


def _added_tokens(definition: dict[str, Any], tokenizer_config: dict[str, Any]) -> list[dict[str, Any]]:
    """The added tokens, where tokenizer_config.json overrides and adds (`added_tokens_decoder`)."""
    added = {token["id"]: token for token in definition.get("added_tokens") or ()}
    for token_id, token in (tokenizer_config.get("added_tokens_decoder") or {}).items():
        defaults = {
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": False,
        }
        known = {name: token[name] for name in (*defaults, "content") if name in token}
        added[int(token_id)] = {**defaults, **added.get(int(token_id), {}), **known, "id": int(token_id)}
    return [added[token_id] for token_id in sorted(added)]


def _eos_token_id(tokenizer: Tokenizer, tokenizer_config: dict[str, Any]) -> int | None:
    return next(_ids(tokenizer, [tokenizer_config.get("eos_token")]), None)


def _special_token_ids(tokenizer: Tokenizer, tokenizer_config: dict[str, Any]) -> tuple[int, ...]:
    """The ids that `skip_special_tokens` leaves out.

    Those are the tokens that tokenizer_config.json names (`all_special_ids` of transformers), not all that are
    flagged special: a model's markers, of reasoning and of tools, are often flagged and not named. Where there
    is no configuration, the flags are all there is.
    """
    if not tokenizer_config:
        flagged = tokenizer.get_added_tokens_decoder().items()
        return tuple(sorted(token_id for token_id, token in flagged if token.special))
    named = [token for name, token in tokenizer_config.items() if name.endswith("_token")]
    for name in ("additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens"):
        more = tokenizer_config.get(name) or ()
        named += more.values() if isinstance(more, dict) else more
    return tuple(sorted(set(_ids(tokenizer, named))))


def _ids(tokenizer: Tokenizer, tokens: Iterable[Any]) -> Iterator[int]:
    """The ids of tokens written as a string or as an object; what is neither, or unknown, has none."""
    for token in tokens:
        content = token.get("content") if isinstance(token, dict) else token
        token_id = tokenizer.token_to_id(content) if isinstance(content, str) else None
        if token_id is not None:
            yield token_id


def _positive(config: dict[str, Any], name: str) -> int | None:
    value = config.get(name)
    return value if isinstance(value, int) and value > 0 else None
