"""Derender a complete generation into a chat completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from derender.logprobs.entries import read_entries
from derender.protocol.limits import check_prompt_token_ids, check_response
from derender.protocol.openai.chat import (
    CallingMessage,
    ChatChoice,
    ChatCompletion,
    ChatMessage,
    FunctionCall,
    ToolCall,
)

from .choices import Prompt, decode_choices, output_decoder, resolve_prompt
from .message import NewCall, read_chat_options
from .size import check_answer_size, prompt_ids
from .usage import count_usage

if TYPE_CHECKING:
    from derender.models.model import ServedModel
    from derender.parsing import Start
    from derender.protocol.complete import ChatDerenderRequest
    from derender.protocol.generate import GenerateResponse

    from .choices import DecodedChoice
    from .message import ChatOptions, MessageParser

__all__ = ["chat_completion", "derender_chat"]


def derender_chat(request: ChatDerenderRequest, model: ServedModel, name: str, created: int) -> ChatCompletion:
    """Derender a complete generation for a chat client.

    Args:
        request: The generate response and the client's request.
        model: The model.
        name: The name to answer with.
        created: Unix time in seconds, for the response.

    Raises:
        DerenderError: The request can't be answered.
    """
    options = read_chat_options("chat_request", request.chat_request, model.parsers, whole_calls=True)
    prompt = Prompt(request.prompt_token_ids, request.prompt_tokens)
    return chat_completion(model, options, request.generate_response, prompt, name=name, created=created)


def chat_completion(
    model: ServedModel,
    options: ChatOptions,
    response: GenerateResponse,
    prompt: Prompt,
    *,
    name: str,
    created: int,
    stops_reported: bool = True,
) -> ChatCompletion:
    """Write a complete generation as a chat completion.

    Args:
        model: The model.
        options: The client's request, read with `whole_calls`.
        response: The generate response.
        prompt: The prompt, as far as it is known.
        name: The name to answer with.
        created: Unix time in seconds, for the response.
        stops_reported: Whether the generate server finds and reports stop strings (`output_decoder`).

    Raises:
        DerenderError: The generate response is out of bounds.
    """
    client, messages = options
    check_response("generate_response", response, model.limits)
    check_prompt_token_ids("prompt_token_ids", prompt.token_ids, model.limits)
    entries = read_entries(
        "generate_response", response.choices, client.candidates, model.limits.vocabulary_size
    )
    texts = [(choice.token_ids or (), 1) for choice in response.choices]
    check_answer_size(
        model,
        [*texts, (prompt_ids(response.prompt_logprobs), 1)],
        [(each, 1) for each in entries],
        parts=len(texts),
    )

    decoder = output_decoder(model.vocabulary, client, messages.parser, stops_reported=stops_reported)
    prompt_token_ids = resolve_prompt(prompt.token_ids, response)
    decoded = decode_choices(decoder, response, prompt_token_ids)
    start = messages.start(prompt_token_ids)
    seed = messages.seed(response.request_id, prompt_token_ids)
    choices: list[ChatChoice] = []
    reasoning_tokens = 0
    for choice, logprobs in zip(decoded, entries, strict=True):
        generated = choice.generated
        message, tokens = _message(messages, choice, start, seed)
        reasoning_tokens += tokens
        choices.append(
            ChatChoice(
                index=generated.index,
                message=message,
                logprobs=model.logprobs.write_chat(logprobs, by_id=client.return_tokens_as_token_ids)
                if generated.logprobs and not messages.hides_tokens
                else None,
                finish_reason=messages.finish_reason(
                    choice.finish_reason, calls=isinstance(message, CallingMessage)
                ),
                stop_reason=choice.stop_reason,
                token_ids=generated.token_ids
                if client.return_token_ids and not messages.hides_tokens
                else None,
                routed_experts=generated.routed_experts,
                weight_versions=generated.weight_versions,
            )
        )
    return ChatCompletion(
        id=response.request_id,
        created=created,
        model=name,
        choices=choices,
        usage=count_usage(prompt.tokens, response, reasoning_tokens if messages.counts_reasoning else None),
        prompt_logprobs=model.logprobs.write_prompt(response.prompt_logprobs),
        prompt_token_ids=response.prompt_token_ids if client.return_token_ids else None,
        kv_transfer_params=response.kv_transfer_params,
        ec_transfer_params=response.ec_transfer_params,
        metrics=response.metrics,
    )


def _message(
    messages: MessageParser, choice: DecodedChoice, start: Start | None, seed: bytes
) -> tuple[ChatMessage, int]:
    """Return the message of a choice, and the number of tokens of its reasoning."""
    if messages.parser is None or start is None:
        return ChatMessage(content=choice.text), 0
    message, _ = messages.parse(
        start.before(messages.parser, choice.pieces),
        choice.pieces,
        choice.runs,
        ended=True,
        finish_reason=choice.finish_reason,
        seed=seed,
        choice=choice.generated.index,
    )
    content, reasoning = message.content or None, message.reasoning or None
    calls = [
        ToolCall(id=call.id, function=FunctionCall(name=call.name, arguments=call.arguments))
        for call in message.calls
        if isinstance(call, NewCall)
    ]
    if not calls:
        return ChatMessage(content=content, reasoning=reasoning), message.reasoning_tokens
    if messages.tool_choice.is_forced:
        content = content or ""
    calling = CallingMessage(content=content, reasoning=reasoning, tool_calls=calls)
    return calling, message.reasoning_tokens
