"""A generate response → a chat completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from derender.logprobs.entries import read_columns
from derender.protocol.limits import check_prompt_token_ids, check_response
from derender.protocol.openai import CallingMessage, ChatChoice, ChatCompletion, ChatMessage

from .choices import decode_choices, prompt_ids, usage
from .message import check_chat_request, finish_reason, parse_message, request_parser

if TYPE_CHECKING:
    from derender.models.model import ServedModel
    from derender.protocol.derender import ChatDerenderRequest

__all__ = ["derender_chat"]


def derender_chat(
    request: ChatDerenderRequest, model: ServedModel, name: str, created: int, *, unseen_stops: bool = False
) -> ChatCompletion:
    """Derender a complete generation for a chat client.

    Args:
        request: The generate response and the client's request.
        model: The model served.
        name: The name to answer with.
        created: Unix time in seconds, for the response.
        unseen_stops: Whether the engine could not see stop strings (`decode_choices`).

    Raises:
        DerenderError: The request can't be answered.
    """
    parsers = model.parsers
    client = check_chat_request("chat_request", request.chat_request, parsers)
    response = request.generate_response
    check_response("generate_response", response, model.limits)
    check_prompt_token_ids("prompt_token_ids", request.prompt_token_ids, model.limits)
    columns = read_columns(
        "generate_response", response.choices, client.candidates, model.limits.vocabulary_size
    )

    parser = parsers and request_parser(parsers, client)
    decoded = decode_choices(
        model.vocabulary,
        response,
        request.prompt_token_ids,
        client,
        parser.grammar if parser else None,
        unseen_stops=unseen_stops,
    )
    prompt = prompt_ids(request.prompt_token_ids, response)
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
                finish_reason=finish_reason(
                    choice.finish_reason, client, calls=isinstance(message, CallingMessage)
                ),
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
