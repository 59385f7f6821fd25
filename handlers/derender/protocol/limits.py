"""Bounds of a request, checked before any decoding (protocol/README.md, "Errors")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from derender.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .base import Json
    from .derender import ClientRequest
    from .generate import GenerateChoice, GenerateChunk, GenerateResponse

__all__ = [
    "Limits",
    "check_chunk",
    "check_client_request",
    "check_count",
    "check_length",
    "check_prompt_token_ids",
    "check_repeated",
    "check_response",
    "check_stop_strings",
    "check_streamed",
    "out_of_vocabulary",
]

MAX_STOP_STRINGS: Final = 64
"""Each is searched for in the whole text."""
MAX_STOP_STRING: Final = 256
"""Characters of the longest stop string in a stream: so much text may have to be held."""
MAX_CHUNKS: Final = 16_384
"""Generate chunks of a request: each makes an answer of half a kilobyte, whatever it holds."""
MAX_STREAMED_CHOICES: Final = 1024
"""Choices that share the state of a stream."""
MAX_REPEATED: Final = 16 * 1024 * 1024
"""Bytes of a prompt's ids and logprobs, which are written again for each of its choices."""
_ID_BYTES: Final = 8
"""Of an id in JSON, about."""
MAX_DEPTH: Final = 100
"""Of JSON that is handed on; what is written nests a little deeper."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a request may hold."""

    vocabulary_size: int
    """Ids are below this."""
    max_model_len: int
    """Ids, logprob entries and prompt positions are no more than this."""
    max_logprobs: int
    """Candidates are no more than this and the sampled token; -1 for any number."""
    max_sequences: int
    """Choices of a response, and responses of a request, are no more than this."""


def check_count(path: str, count: int, limits: Limits) -> None:
    """Refuse more sequences than are accepted.

    Raises:
        BadRequest: Names the bound.
    """
    if count > limits.max_sequences:
        raise BadRequest(
            f"{path} count ({count}) exceeds the maximum ({limits.max_sequences}); send fewer, or raise "
            "DERENDER_MAX_SEQUENCES",
            param=path,
        )


def check_streamed(path: str, chunks: int, choices: int) -> None:
    """Refuse more generate chunks than are answered at once, or more choices than share a state.

    Raises:
        BadRequest: Names the bound.
    """
    if chunks > MAX_CHUNKS:
        raise BadRequest(f"{path}: {chunks} chunks; {MAX_CHUNKS} are accepted at once", param=path)
    if choices > MAX_STREAMED_CHOICES:
        raise BadRequest(
            f"{path}: more than {MAX_STREAMED_CHOICES} choices share a stream_state; give each its own",
            param=path,
        )


def check_length(path: str, length: int, limits: Limits) -> None:
    """Refuse more tokens than a sequence may have.

    Raises:
        BadRequest: Names the bound.
    """
    if length > limits.max_model_len:
        raise BadRequest(
            f"{path}: length ({length}) exceeds max_model_len ({limits.max_model_len})", param=path
        )


def check_response(path: str, response: GenerateResponse, limits: Limits) -> None:
    """Refuse a generate response that is empty, too large, or of another vocabulary.

    Args:
        path: Where it is in the request.
        response: The generate response.
        limits: The bounds.

    Raises:
        BadRequest: Names the field and the bound.
    """
    check_count(f"{path}.choices", len(response.choices), limits)
    for place, choice in enumerate(response.choices):
        if not choice.token_ids:
            raise BadRequest(
                f"choice {choice.index} has empty or null token_ids", param=f"{path}.choices.{place}.token_ids"
            )
        _check_choice(f"{path}.choices.{place}", choice, limits)
    if response.prompt_logprobs is not None:
        check_length(f"{path}.prompt_logprobs", len(response.prompt_logprobs), limits)
        for place, position in enumerate(response.prompt_logprobs):
            highest = max(map(int, position), default=-1) if position else -1
            if highest >= limits.vocabulary_size:
                raise out_of_vocabulary(f"{path}.prompt_logprobs.{place}", highest, limits.vocabulary_size)
    check_prompt_token_ids(f"{path}.prompt_token_ids", response.prompt_token_ids, limits)
    for name in ("kv_transfer_params", "ec_transfer_params", "metrics", "prompt_logprobs"):
        _check_carried(f"{path}.{name}", getattr(response, name))


def check_chunk(path: str, chunk: GenerateChunk, limits: Limits) -> None:
    """Refuse a generate chunk that is too large, of several choices, or of another vocabulary.

    Args:
        path: Where it is in the request.
        chunk: The generate chunk.
        limits: The bounds.

    Raises:
        BadRequest: Names the field and the bound.
    """
    if len(chunk.choices) > 1:
        raise BadRequest(
            f"a chunk is of one choice, not of {len(chunk.choices)}; send them as several chunks",
            param=f"{path}.choices",
        )
    for choice in chunk.choices:
        _check_choice(f"{path}.choices.0", choice, limits)
    check_prompt_token_ids(f"{path}.prompt_token_ids", chunk.prompt_token_ids, limits)
    for name in ("kv_transfer_params", "ec_transfer_params", "metrics", "usage"):
        _check_carried(f"{path}.{name}", getattr(chunk, name))


def check_prompt_token_ids(path: str, token_ids: Sequence[int] | None, limits: Limits) -> None:
    """Refuse a prompt that is too long or of another vocabulary.

    Raises:
        BadRequest: Names the bound or the id.
    """
    if token_ids:
        check_length(path, len(token_ids), limits)
        _check_ids(path, token_ids, limits)


def check_repeated(path: str, response: GenerateResponse, *, return_token_ids: bool) -> None:
    """Refuse a prompt that is small once, but not in each choice of a completion.

    Raises:
        BadRequest: Says how much is accepted.
    """
    choices = len(response.choices)
    if choices < 2:
        return
    once = _ID_BYTES * len(response.prompt_token_ids or ()) if return_token_ids else 0
    if response.prompt_logprobs is not None:
        once += len(orjson.dumps(response.prompt_logprobs))
    if once * choices > MAX_REPEATED:
        raise BadRequest(
            f"{path}: prompt_token_ids and prompt_logprobs are in each choice, {once} bytes in {choices} "
            f"choices; {MAX_REPEATED} in all are accepted",
            param=f"{path}.choices",
        )


def check_client_request(path: str, client: ClientRequest) -> None:
    """Refuse more stop strings than are searched for.

    Raises:
        BadRequest: Says how many are accepted.
    """
    if len(client.stop) > MAX_STOP_STRINGS:
        raise BadRequest(
            f"{path}.stop count ({len(client.stop)}) exceeds {MAX_STOP_STRINGS}", param=f"{path}.stop"
        )


def check_stop_strings(path: str, client: ClientRequest) -> None:
    """Refuse stop strings that are too long to be waited for.

    Raises:
        BadRequest: Says how long they may be.
    """
    if max(map(len, client.stop), default=0) > MAX_STOP_STRING:
        raise BadRequest(
            f"a stop string is longer than {MAX_STOP_STRING} characters, which a stream can't wait for",
            param=f"{path}.stop",
        )


def out_of_vocabulary(path: str, token_id: int, size: int) -> BadRequest:
    """The error for an id that the model can't emit: the response is of another model."""
    return BadRequest(
        f"{path}: token id {token_id} is outside the vocabulary (0 to {size - 1}); the tokenizer layer is "
        "not of the model that generated this, or was built without its config.json",
        param=path,
    )


def _check_choice(path: str, choice: GenerateChoice, limits: Limits) -> None:
    if choice.token_ids:
        check_length(f"{path}.token_ids", len(choice.token_ids), limits)
        _check_ids(f"{path}.token_ids", choice.token_ids, limits)
    _check_carried(f"{path}.routed_experts", choice.routed_experts)
    _check_carried(f"{path}.weight_versions", choice.weight_versions)
    if choice.logprobs is None or choice.logprobs.content is None:
        return
    check_length(f"{path}.logprobs.content", len(choice.logprobs.content), limits)
    most = limits.max_logprobs + 1
    for place, entry in enumerate(choice.logprobs.content):
        if most > 0 and entry.top_logprobs and len(entry.top_logprobs) > most:
            raise BadRequest(
                f"top_logprobs count ({len(entry.top_logprobs)}) exceeds max_logprobs ({limits.max_logprobs}) "
                "and the sampled token; send fewer, or raise DERENDER_MAX_LOGPROBS",
                param=f"{path}.logprobs.content.{place}.top_logprobs",
            )


def _check_ids(path: str, token_ids: Sequence[int], limits: Limits) -> None:
    highest = max(token_ids)
    if highest >= limits.vocabulary_size:
        raise out_of_vocabulary(f"{path}.{token_ids.index(highest)}", highest, limits.vocabulary_size)


def _check_carried(path: str, value: Json) -> None:
    """Refuse JSON that can be read but not be written again."""
    if value is None:
        return
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
            elif isinstance(item, int) and not -(2**63) <= item < 2**64:
                raise BadRequest(f"{path}: an integer of more than 64 bits", param=path)
        if not inner:
            return
        level = inner
    raise BadRequest(f"{path}: nested deeper than {MAX_DEPTH}", param=path)
