"""Generate responses → a text completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from .detokenizer import start
from .errors import BadRequest, InvalidRequest
from .limits import check_client_request, check_prompt_token_ids, check_responses
from .logprobs import completion_candidates, read_columns
from .output import agreed, output
from .protocol.openai import CompletionChoice, CompletionLogprobs, TextCompletion, Usage
from .stopping import Stopping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import ServedModel
    from .protocol.derender import CompletionDerenderRequest

__all__ = ["derender_completion"]

T = TypeVar("T")


def derender_completion(request: CompletionDerenderRequest, model: ServedModel, created: int) -> TextCompletion:
    """Derender complete generations, one for each prompt, for a completions client.

    Args:
        request: The generate responses and the client's request.
        model: The model served.
        created: Unix time in seconds, for the response.

    Raises:
        DerenderError: The request can't be answered.
    """
    responses, client = request.generate_responses, request.completion_request
    prompts = _one_each("prompt_token_ids", request.prompt_token_ids, responses) or [None] * len(responses)
    prompt_tokens = sum(_one_each("prompt_tokens", request.prompt_tokens, responses) or ())
    name = model.name(request.model)
    if not responses:
        raise BadRequest("generate_responses must not be empty", param="generate_responses")
    check_responses(responses, model.limits)
    for prompt in prompts:
        check_prompt_token_ids(prompt, model.limits)
    check_client_request(client)

    skip_special_tokens = client is None or client.skip_special_tokens
    stopping = Stopping.of(client)
    return_token_ids = client is not None and client.return_token_ids
    candidates = completion_candidates(client)
    columns = [
        [read_columns(choice, candidates, model.limits.vocabulary_size) for choice in response.choices]
        for response in responses
    ]

    choices: list[CompletionChoice] = []
    for response, prompt, each_columns in zip(responses, prompts, columns, strict=True):
        prompt_token_ids = response.prompt_token_ids if prompt is None else prompt
        state = start(model.vocabulary, prompt_token_ids, skip_special_tokens=skip_special_tokens)
        prompt_logprobs = model.logprobs.prompt(response.prompt_logprobs)
        for choice, entries in zip(response.choices, each_columns, strict=True):
            token_ids = choice.token_ids or []
            text, finish_reason, stop_reason = output(
                model.vocabulary, state, choice, token_ids, stopping, skip_special_tokens=skip_special_tokens
            )
            logprobs = None
            if choice.logprobs is not None:
                logprobs = CompletionLogprobs() if entries is None else model.logprobs.completion(entries)
            choices.append(
                CompletionChoice(
                    index=len(choices),
                    text=text,
                    logprobs=logprobs,
                    finish_reason=finish_reason,
                    stop_reason=stop_reason,
                    token_ids=token_ids if return_token_ids else None,
                    prompt_logprobs=prompt_logprobs,
                    prompt_token_ids=response.prompt_token_ids if return_token_ids else None,
                    routed_experts=choice.routed_experts,
                    weight_versions=choice.weight_versions,
                )
            )

    completion_tokens = sum(len(choice.token_ids or ()) for each in responses for choice in each.choices)
    return TextCompletion(
        id=responses[0].request_id,
        created=created,
        model=name,
        choices=choices,
        usage=Usage(
            prompt_tokens=prompt_tokens,
            total_tokens=prompt_tokens + completion_tokens,
            completion_tokens=completion_tokens,
        ),
        kv_transfer_params=agreed(each.kv_transfer_params for each in responses),
        ec_transfer_params=agreed(each.ec_transfer_params for each in responses),
        metrics=responses[0].metrics if len(responses) == 1 else None,
    )


def _one_each(name: str, values: Sequence[T] | None, responses: Sequence[object]) -> Sequence[T] | None:
    if values is not None and len(values) != len(responses):
        raise InvalidRequest(
            f"{name} length ({len(values)}) must equal generate_responses length ({len(responses)})",
            param=name,
        )
    return values
