"""Limits of a request, checked before anything is decoded (README.md, "Errors")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from derender.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .base import Json
    from .client import ClientRequest
    from .generate import GenerateChoice, GenerateChunk, GenerateResponse, GenerateUsage

__all__ = [
    "Limits",
    "check_chunk",
    "check_client_request",
    "check_count",
    "check_length",
    "check_prompt",
    "check_prompt_token_ids",
    "check_repeated_prompt",
    "check_response",
    "check_stop_strings",
    "check_stream_size",
    "out_of_vocabulary",
]

MAX_STOP_STRINGS: Final = 64
"""Maximum number of stop strings."""
MAX_STOP_STRING: Final = 256
"""Maximum length of a stop string in a stream, which may have to hold as much text."""
MAX_STOP_CHARACTERS: Final = MAX_STOP_STRINGS * MAX_STOP_STRING
"""Maximum length of all stop strings. What finds them has a node for each character."""
MAX_CHUNKS: Final = 16_384
"""Maximum number of generate chunks in a request. Each makes a chunk of at least half a kilobyte."""
MAX_STREAMED_CHOICES: Final = 1024
"""Maximum number of choices that share the state of a stream."""
MAX_REPEATED: Final = 16 * 1024 * 1024
"""Maximum bytes of prompt ids and prompt logprobs, which are repeated in each choice of a text completion."""
_ID_BYTES: Final = 8
"""Approximate length of an id in JSON."""
MAX_DEPTH: Final = 100
"""Maximum nesting depth of JSON that is passed on. The response nests a little deeper."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a model's requests.

    Attributes:
        vocabulary_size: Ids are below this.
        max_model_len: Maximum number of ids, logprob entries and prompt positions.
        max_logprobs: Maximum number of candidates besides the sampled token; -1 for no limit.
        max_sequences: Maximum number of choices per response and responses per request.
        max_answer_bytes: Maximum size of an answer.
    """

    vocabulary_size: int
    max_model_len: int
    max_logprobs: int
    max_sequences: int
    max_answer_bytes: int


def check_count(path: str, count: int, limits: Limits) -> None:
    """Refuse more sequences than are accepted.

    Raises:
        BadRequest: There are more. The message names the limit.
    """
    if count > limits.max_sequences:
        raise BadRequest(
            f"{path} count ({count}) exceeds the maximum ({limits.max_sequences}); send fewer, or raise "
            "DERENDER_MAX_SEQUENCES",
            param=path,
        )


def check_stream_size(path: str, chunks: int, choices: int) -> None:
    """Refuse more generate chunks than one request may have, or more choices than may share a state.

    Raises:
        BadRequest: There are more. The message names the limit.
    """
    if chunks > MAX_CHUNKS:
        raise BadRequest(
            f"{path} count ({chunks}) exceeds the maximum of one request ({MAX_CHUNKS})", param=path
        )
    if choices > MAX_STREAMED_CHOICES:
        raise BadRequest(
            f"{path}: {choices} choices exceed the maximum that share a stream_state ({MAX_STREAMED_CHOICES}); "
            "stream each choice with its own stream_state",
            param=path,
        )


def check_length(path: str, length: int, limits: Limits) -> None:
    """Refuse more tokens than a sequence may have.

    Raises:
        BadRequest: There are more. The message names the limit.
    """
    if length > limits.max_model_len:
        raise BadRequest(
            f"{path}: length ({length}) exceeds max_model_len ({limits.max_model_len})", param=path
        )


def check_response(path: str, response: GenerateResponse, limits: Limits) -> None:
    """Refuse a generate response that is empty, too large, or from another model.

    Args:
        path: Path of the generate response in the request, for errors.
        response: The generate response.
        limits: The model's limits.

    Raises:
        BadRequest: The message names the field and the limit.
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
        _check_passed_on(f"{path}.{name}", getattr(response, name))
    _check_usage(f"{path}.usage", response.usage)


def check_chunk(path: str, chunk: GenerateChunk, limits: Limits) -> None:
    """Refuse a generate chunk that has several choices, is too large, or is from another model.

    Args:
        path: Path of the generate chunk in the request, for errors.
        chunk: The generate chunk.
        limits: The model's limits.

    Raises:
        BadRequest: The message names the field and the limit.
    """
    if len(chunk.choices) > 1:
        raise BadRequest(
            f"{path} has {len(chunk.choices)} choices; send one choice per chunk",
            param=f"{path}.choices",
        )
    for choice in chunk.choices:
        _check_choice(f"{path}.choices.0", choice, limits)
    check_prompt_token_ids(f"{path}.prompt_token_ids", chunk.prompt_token_ids, limits)
    for name in ("kv_transfer_params", "ec_transfer_params", "metrics"):
        _check_passed_on(f"{path}.{name}", getattr(chunk, name))
    _check_usage(f"{path}.usage", chunk.usage)


def check_prompt_token_ids(path: str, token_ids: Sequence[int] | None, limits: Limits) -> None:
    """Refuse a prompt that is too long or from another model.

    Raises:
        BadRequest: The message names the limit or the id.
    """
    if token_ids:
        check_length(path, len(token_ids), limits)
        _check_ids(path, token_ids, limits)


def check_prompt(path: str, prompt: Json, limits: Limits) -> None:
    """Refuse prompts of a client that are token ids, if one is too long or has an id that the model lacks.

    Args:
        path: Path of the prompt in the request, for errors.
        prompt: A text, a list of ids, or a list of either. Anything else is left to the render service.
        limits: The model's limits.

    Raises:
        BadRequest: The message names the limit or the id.
    """
    if not isinstance(prompt, list):
        return
    single = any(type(item) is int for item in prompt)
    prompts = {path: prompt} if single else {f"{path}.{place}": item for place, item in enumerate(prompt)}
    for place, token_ids in prompts.items():
        if not isinstance(token_ids, list):
            continue
        check_length(place, len(token_ids), limits)
        for index, token_id in enumerate(token_ids):
            if type(token_id) is int and token_id >= limits.vocabulary_size:
                raise BadRequest(
                    f"{place}.{index}: token id {token_id} is outside the vocabulary "
                    f"(0 to {limits.vocabulary_size - 1})",
                    param=f"{place}.{index}",
                )


def check_repeated_prompt(path: str, response: GenerateResponse, *, return_token_ids: bool, echoed: str) -> int:
    """Refuse a prompt that is too large when it is repeated in each choice of a text completion.

    Args:
        path: Path of the generate response in the request, for errors.
        response: The generate response.
        return_token_ids: Whether choices have the prompt's ids.
        echoed: The text of the prompt, if choices have it.

    Returns:
        The bytes of the prompt that each choice has.

    Raises:
        BadRequest: The message names the limit.
    """
    choices = len(response.choices)
    once = _ID_BYTES * len(response.prompt_token_ids or ()) if return_token_ids else 0
    once += len(echoed)
    if response.prompt_logprobs is not None:
        # Echoed logprobs repeat them.
        once += len(orjson.dumps(response.prompt_logprobs)) * (2 if echoed else 1)
    if choices > 1 and once * choices > MAX_REPEATED:
        raise BadRequest(
            f"{path}: the prompt, its ids and its logprobs are repeated in each of {choices} choices; "
            f"{once} bytes each exceed the maximum of {MAX_REPEATED} in all",
            param=f"{path}.choices",
        )
    return once


def check_client_request(path: str, client: ClientRequest) -> None:
    """Refuse too many or too long stop strings.

    Raises:
        BadRequest: The message names the limit.
    """
    if len(client.stop) > MAX_STOP_STRINGS:
        raise BadRequest(
            f"{path}.stop count ({len(client.stop)}) exceeds the maximum ({MAX_STOP_STRINGS})",
            param=f"{path}.stop",
        )
    _check_stop_characters(f"{path}.stop", sum(map(len, client.stop)))


def check_stop_strings(path: str, client: ClientRequest) -> None:
    """Refuse stop strings that are too long for a stream.

    Raises:
        BadRequest: The message names the limit.
    """
    longest = max(map(len, client.stop), default=0)
    if longest > MAX_STOP_STRING:
        raise BadRequest(
            f"stop strings in streams may have at most {MAX_STOP_STRING} characters, got {longest}",
            param=f"{path}.stop",
        )


def out_of_vocabulary(path: str, token_id: int, size: int) -> BadRequest:
    """Return the error for an id that the model can't emit: another model generated the response."""
    return BadRequest(
        f"{path}: token id {token_id} is outside the vocabulary (0 to {size - 1}); the tokenizer layer is for "
        "another model, or was built without the model's config.json",
        param=path,
    )


def _check_stop_characters(path: str, length: int) -> None:
    if length > MAX_STOP_CHARACTERS:
        raise BadRequest(
            f"{path}: stop strings may have at most {MAX_STOP_CHARACTERS} characters in all, got {length}",
            param=path,
        )


def _check_choice(path: str, choice: GenerateChoice, limits: Limits) -> None:
    if isinstance(choice.stop_reason, str):
        _check_stop_characters(f"{path}.stop_reason", len(choice.stop_reason))
    if choice.token_ids:
        check_length(f"{path}.token_ids", len(choice.token_ids), limits)
        _check_ids(f"{path}.token_ids", choice.token_ids, limits)
    _check_passed_on(f"{path}.routed_experts", choice.routed_experts)
    _check_passed_on(f"{path}.weight_versions", choice.weight_versions)
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


def _check_usage(path: str, usage: GenerateUsage | None) -> None:
    if usage is not None:
        _check_passed_on(f"{path}.prompt_tokens_details", usage.prompt_tokens_details)
        _check_passed_on(f"{path}.completion_tokens_details", usage.completion_tokens_details)


def _check_ids(path: str, token_ids: Sequence[int], limits: Limits) -> None:
    highest = max(token_ids)
    if highest >= limits.vocabulary_size:
        raise out_of_vocabulary(f"{path}.{token_ids.index(highest)}", highest, limits.vocabulary_size)


def _check_passed_on(path: str, value: Json) -> None:
    """Refuse JSON that was read but can't be written."""
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
                raise BadRequest(f"{path}: integers must fit in 64 bits", param=path)
        if not inner:
            return
        level = inner
    raise BadRequest(f"{path}: nested deeper than the maximum ({MAX_DEPTH} levels)", param=path)
