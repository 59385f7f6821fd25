"""What the relay adds to the endpoints of the OpenAI API: its requests, and how chat and completions differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from derender.answers.chat import chat_completion
from derender.answers.choices import Prompt, output_decoder
from derender.answers.completions import text_completion
from derender.answers.message import read_chat_options
from derender.endpoints import CHAT, COMPLETIONS
from derender.protocol.generate import GenerateResponse
from derender.protocol.limits import check_client_request, check_prompt
from derender.protocol.openai.chat import ChatCompletion
from derender.protocol.openai.completions import TextCompletion

from .requests import (
    ChatRelayRequest,
    ClientChatRequest,
    ClientCompletionRequest,
    CompletionRelayRequest,
)

if TYPE_CHECKING:
    from derender.decoding.output import OutputDecoder
    from derender.endpoints import Endpoint
    from derender.models.model import RequestedModel
    from derender.streaming import Generation

    from .requests import ClientRequest, RelayRequest

__all__ = ["RELAY_ENDPOINTS", "CompleteAnswer", "RelayEndpoint", "WriteAnswer"]

WriteAnswer = Callable[[Sequence[Prompt], Sequence[GenerateResponse], int], ChatCompletion | TextCompletion]
"""Writes complete generations as an answer: `(prompts, responses, created)`, one response for each prompt."""


class CompleteAnswer(NamedTuple):
    """What a request that does not stream is answered with."""

    decoder: OutputDecoder
    """Decodes the outputs."""
    write: WriteAnswer


@dataclass(frozen=True, kw_only=True)
class RelayEndpoint:
    """An endpoint of the OpenAI API that the relay serves.

    Attributes:
        openai: The endpoint.
        client_request: The model of a client's request.
        relay_request: The model of a request to the relay's own route.
        example: A client's request, for the documentation.
        many_prompts: Whether a client's request may have several prompts.
        parses: Whether outputs are parsed. If the model has parsers, the client's request is required then.
        complete: Checks a client's request that does not stream, and returns what answers it:
            `(requested, path, client)`, with the path of the client's request in the body, for errors.
        stream: Checks a client's request that streams, and returns what derenders it. Takes the same.
    """

    openai: Endpoint
    client_request: type[ClientRequest]
    relay_request: type[RelayRequest]
    example: Mapping[str, object]
    many_prompts: bool
    parses: bool
    complete: Callable[[RequestedModel, str, Any], CompleteAnswer]
    stream: Callable[[RequestedModel, str, Any], Generation[Any, Any]]


def _complete_chat(requested: RequestedModel, path: str, client: ClientChatRequest | None) -> CompleteAnswer:
    model, name = requested
    options = read_chat_options(path, client, model.parsers, whole_calls=True)
    parser = options.messages.parser

    def write(prompts: Sequence[Prompt], responses: Sequence[GenerateResponse], created: int) -> ChatCompletion:
        ((prompt,), (response,)) = prompts, responses
        return chat_completion(
            model,
            options,
            response,
            prompt,
            name=name,
            created=created,
            stops_reported=False,
        )

    decoder = output_decoder(model.vocabulary, options.client, parser, stops_reported=False)
    return CompleteAnswer(decoder, write)


def _stream_chat(requested: RequestedModel, path: str, client: ClientChatRequest) -> Generation[Any, Any]:
    return CHAT.generation(*requested, path, client, None)


def _complete_completion(
    requested: RequestedModel, path: str, client: ClientCompletionRequest
) -> CompleteAnswer:
    model, name = requested
    check_client_request(path, client)
    check_prompt(f"{path}.prompt", client.prompt, model.limits)

    def write(prompts: Sequence[Prompt], responses: Sequence[GenerateResponse], created: int) -> TextCompletion:
        return text_completion(
            model,
            client,
            responses,
            prompts,
            name=name,
            created=created,
            stops_reported=False,
        )

    return CompleteAnswer(output_decoder(model.vocabulary, client, None, stops_reported=False), write)


def _stream_completion(
    requested: RequestedModel, path: str, client: ClientCompletionRequest
) -> Generation[Any, Any]:
    check_prompt(f"{path}.prompt", client.prompt, requested.model.limits)
    return COMPLETIONS.generation(*requested, path, client, None)


RELAY_ENDPOINTS: Final = (
    RelayEndpoint(
        openai=CHAT,
        client_request=ClientChatRequest,
        relay_request=ChatRelayRequest,
        example={"messages": [{"role": "user", "content": "Say hello"}]},
        many_prompts=False,
        parses=True,
        complete=_complete_chat,
        stream=_stream_chat,
    ),
    RelayEndpoint(
        openai=COMPLETIONS,
        client_request=ClientCompletionRequest,
        relay_request=CompletionRelayRequest,
        example={"prompt": "Once upon a time"},
        many_prompts=True,
        parses=False,
        complete=_complete_completion,
        stream=_stream_completion,
    ),
)
