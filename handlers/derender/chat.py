"""A generate response → a chat completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from .detokenizer import start
from .limits import check_client_request, check_prompt_token_ids, check_responses
from .logprobs import chat_candidates, read_columns
from .output import output
from .protocol.openai import ChatChoice, ChatCompletion, ChatMessage, Usage
from .stopping import Stopping

if TYPE_CHECKING:
    from .model import ServedModel
    from .protocol.derender import ChatDerenderRequest

__all__ = ["derender_chat"]


def derender_chat(request: ChatDerenderRequest, model: ServedModel, created: int) -> ChatCompletion:
    """Derender a complete generation for a chat client.

    Args:
        request: The generate response and the client's request.
        model: The model served.
        created: Unix time in seconds, for the response.

    Raises:
        DerenderError: The request can't be answered.
    """
    name = model.name(request.model)
    response, client = request.generate_response, request.chat_request
    check_responses([response], model.limits)
    check_prompt_token_ids(request.prompt_token_ids, model.limits)
    check_client_request(client)

    prompt_token_ids = request.prompt_token_ids
    if prompt_token_ids is None:
        prompt_token_ids = response.prompt_token_ids
    skip_special_tokens = client is None or client.skip_special_tokens
    state = start(model.vocabulary, prompt_token_ids, skip_special_tokens=skip_special_tokens)
    stopping = Stopping.of(client)
    return_token_ids = client is not None and client.return_token_ids
    candidates = chat_candidates(client)
    columns = [read_columns(choice, candidates, model.limits.vocabulary_size) for choice in response.choices]

    choices = []
    for choice, entries in zip(response.choices, columns, strict=True):
        token_ids = choice.token_ids or []
        text, finish_reason, stop_reason = output(
            model.vocabulary, state, choice, token_ids, stopping, skip_special_tokens=skip_special_tokens
        )
        logprobs = None
        if choice.logprobs is not None:
            content = b"null" if entries is None else model.logprobs.chat(entries)
            logprobs = orjson.Fragment(b'{"content":%b}' % content)
        choices.append(
            ChatChoice(
                index=choice.index,
                message=ChatMessage(content=text),
                logprobs=logprobs,
                finish_reason=finish_reason,
                stop_reason=stop_reason,
                token_ids=token_ids if return_token_ids else None,
                routed_experts=choice.routed_experts,
                weight_versions=choice.weight_versions,
            )
        )

    prompt_tokens = request.prompt_tokens or 0
    completion_tokens = sum(len(choice.token_ids or ()) for choice in response.choices)
    return ChatCompletion(
        id=response.request_id,
        created=created,
        model=name,
        choices=choices,
        usage=Usage(
            prompt_tokens=prompt_tokens,
            total_tokens=prompt_tokens + completion_tokens,
            completion_tokens=completion_tokens,
        ),
        prompt_logprobs=model.logprobs.prompt(response.prompt_logprobs),
        prompt_token_ids=response.prompt_token_ids if return_token_ids else None,
        kv_transfer_params=response.kv_transfer_params,
        ec_transfer_params=response.ec_transfer_params,
        metrics=response.metrics,
    )
