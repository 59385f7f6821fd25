"""Bounds of a request, checked before any decoding (wire contract, "Errors")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .protocol.base import Json
    from .protocol.derender import ClientRequest
    from .protocol.generate import GenerateChoice, GenerateResponse

__all__ = ["Limits", "check_client_request", "check_prompt_token_ids", "check_responses"]

MAX_STOP_STRINGS: Final = 1024
"""Each is searched for in the whole text."""
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


def check_responses(responses: Sequence[GenerateResponse], limits: Limits) -> None:
    """Refuse generate responses that are empty, too large, or of another vocabulary.

    Raises:
        BadRequest: Names the choice and the bound.
    """
    if len(responses) > limits.max_sequences:
        raise BadRequest(
            f"generate_responses count ({len(responses)}) exceeds the maximum ({limits.max_sequences}); "
            "send fewer, or raise DERENDER_MAX_SEQUENCES",
            param="generate_responses",
        )
    for response in responses:
        if len(response.choices) > limits.max_sequences:
            raise BadRequest(
                f"choices count ({len(response.choices)}) exceeds the maximum ({limits.max_sequences}); "
                "send fewer, or raise DERENDER_MAX_SEQUENCES",
                param="choices",
            )
        for choice in response.choices:
            _check_choice(choice, limits)
        if response.prompt_logprobs is not None:
            _check_length("prompt_logprobs", len(response.prompt_logprobs), limits)
            for position in response.prompt_logprobs:
                if position:
                    _check_ids("prompt_logprobs", list(map(int, position)), limits)
        check_prompt_token_ids(response.prompt_token_ids, limits)
        for name in ("kv_transfer_params", "ec_transfer_params", "metrics", "prompt_logprobs"):
            _check_carried(name, getattr(response, name))


def check_prompt_token_ids(token_ids: Sequence[int] | None, limits: Limits) -> None:
    """Refuse a prompt that is too long or of another vocabulary.

    Raises:
        BadRequest: Names the bound or the id.
    """
    if token_ids:
        _check_length("prompt_token_ids", len(token_ids), limits)
        _check_ids("prompt_token_ids", token_ids, limits)


def check_client_request(request: ClientRequest | None) -> None:
    """Refuse more stop strings than are searched for.

    Raises:
        BadRequest: Says how many are accepted.
    """
    if request is not None and len(request.stop) > MAX_STOP_STRINGS:
        raise BadRequest(f"stop count ({len(request.stop)}) exceeds {MAX_STOP_STRINGS}", param="stop")


def _check_choice(choice: GenerateChoice, limits: Limits) -> None:
    where = f"choice {choice.index}"
    if not choice.token_ids:
        raise BadRequest(f"{where} has empty or null token_ids", param="token_ids")
    _check_length(f"token_ids of {where}", len(choice.token_ids), limits)
    _check_ids(f"token_ids of {where}", choice.token_ids, limits)
    _check_carried(f"routed_experts of {where}", choice.routed_experts)
    _check_carried(f"weight_versions of {where}", choice.weight_versions)
    if choice.logprobs is None or choice.logprobs.content is None:
        return
    _check_length(f"logprobs.content of {where}", len(choice.logprobs.content), limits)
    if limits.max_logprobs < 0:
        return
    most = max((len(entry.top_logprobs or ()) for entry in choice.logprobs.content), default=0)
    if most > limits.max_logprobs + 1:
        raise BadRequest(
            f"top_logprobs count ({most}) in {where} exceeds max_logprobs ({limits.max_logprobs}) and the "
            "sampled token; send fewer, or raise DERENDER_MAX_LOGPROBS",
            param="top_logprobs",
        )


def _check_length(what: str, length: int, limits: Limits) -> None:
    if length > limits.max_model_len:
        raise BadRequest(
            f"{what}: length ({length}) exceeds max_model_len ({limits.max_model_len})",
            param=what.partition(" ")[0],
        )


def _check_ids(what: str, token_ids: Sequence[int], limits: Limits) -> None:
    highest = max(token_ids)
    if highest >= limits.vocabulary_size:
        raise out_of_vocabulary(highest, what, limits.vocabulary_size)


def out_of_vocabulary(token_id: int, what: str, size: int) -> BadRequest:
    """The error for an id that the model can't emit: the response is of another model."""
    return BadRequest(
        f"{what}: token id {token_id} is outside the vocabulary (0 to {size - 1}); the tokenizer layer is not "
        "the one of the model that generated this",
        param=what.partition(" ")[0],
    )


def _check_carried(what: str, value: Json) -> None:
    """Refuse JSON that can be read but not be written again."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
            elif isinstance(item, int) and not -(2**63) <= item < 2**64:
                raise BadRequest(f"{what}: an integer of more than 64 bits", param=what.partition(" ")[0])
        if not inner:
            return
        level = inner
    raise BadRequest(f"{what}: nested deeper than {MAX_DEPTH}", param=what.partition(" ")[0])
