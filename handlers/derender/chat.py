"""A generate response → a chat completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .choices import decode_choices, usage
from .columns import read_columns
from .errors import BadRequest
from .limits import check_client_request, check_prompt_token_ids, check_response
from .messages import check_tool_choice, finish_reason, parse_message, request_parser
from .protocol.derender import ChatRequest
from .protocol.openai import ChatChoice, ChatCompletion, ChatMessage

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
    parsers = model.parsers
    if parsers and request.chat_request is None:
        raise BadRequest(
            "chat_request is required where a tool-call or reasoning parser is configured: how an output is "
            "parsed depends on it",
            param="chat_request",
        )
    response, client = request.generate_response, request.chat_request or ChatRequest()
    check_response("generate_response", response, model.limits)
    check_prompt_token_ids("prompt_token_ids", request.prompt_token_ids, model.limits)
    check_client_request("chat_request", client)
    check_tool_choice("chat_request", client)
    columns = read_columns("generate_response", response, _candidates(client), model.limits.vocabulary_size)

    parser = parsers and request_parser(parsers, client)
    decoded = decode_choices(
        model.vocabulary, response, request.prompt_token_ids, client, parser.grammar if parser else None
    )
    prompt = response.prompt_token_ids if request.prompt_token_ids is None else request.prompt_token_ids
    choices: list[ChatChoice] = []
    for choice, entries in zip(decoded, columns, strict=True):
        generated = choice.generated
        if parsers and parser:
            message = parse_message(parsers, parser, choice, prompt, client, response.request_id)
        else:
            message = ChatMessage(content=choice.text)
        # Log probabilities and ids would give the reasoning away.
        hidden = parser is not None and not client.include_reasoning
        choices.append(
            ChatChoice(
                index=generated.index,
                message=message,
                logprobs=model.logprobs.chat(entries) if generated.logprobs and not hidden else None,
                finish_reason=finish_reason(generated.finish_reason, message, client),
                stop_reason=choice.stop_reason,
                token_ids=generated.token_ids if client.return_token_ids and not hidden else None,
                routed_experts=generated.routed_experts,
                weight_versions=generated.weight_versions,
            )
        )
    return ChatCompletion(
        id=response.request_id,
        created=created,
        model=name,
        choices=choices,
        usage=usage(request.prompt_tokens or 0, [response]),
        prompt_logprobs=model.logprobs.prompt(response.prompt_logprobs),
        prompt_token_ids=response.prompt_token_ids if client.return_token_ids else None,
        kv_transfer_params=response.kv_transfer_params,
        ec_transfer_params=response.ec_transfer_params,
        metrics=response.metrics,
    )


def _candidates(client: ChatRequest) -> int | None:
    """How many candidates the client gets of each position; None for all, also where it did not ask."""
    if not client.logprobs or client.logprob_token_ids or client.top_logprobs == -1:
        return None
    return max(client.top_logprobs, 0)
