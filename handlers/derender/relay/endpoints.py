"""What the relay adds to the endpoints of the OpenAI API: its requests, and how chat and completions differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from derender.answers import choices
from derender.answers.chat import chat_completion
from derender.answers.completions import text_completion
from derender.answers.message import read_chat_options
from derender.endpoints import CHAT, COMPLETIONS
from derender.errors import BadRequest
from derender.protocol.limits import check_client_request

from .requests import (
    ChatRelayRequest,
    ClientChatRequest,
    ClientCompletionRequest,
    CompletionRelayRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from derender.endpoints import Endpoint
    from derender.models.model import RequestedModel, ServedModel
    from derender.protocol.generate import GenerateResponse
    from derender.protocol.openai import ChatCompletion, TextCompletion

    from .prompts import Prompt
    from .requests import ClientRequest, RelayRequest

__all__ = ["RELAY_ENDPOINTS", "RelayEndpoint"]


@dataclass(frozen=True, kw_only=True)
class RelayEndpoint:
    """An endpoint of the OpenAI API that the relay serves.

    Attributes:
        openai: The endpoint.
        client_request: The model of a client's request.
        relay_request: The model of a request to the relay's own route.
        example: A client's request, for the documentation.
        many_prompts: Whether a client's request may have several prompts.
        check: Checks a client's request: `(path, client, model)`, with the path of the request in the body.
        derender: Derenders complete generations: `(model, client, prompts, responses, created)`, with one
            response for each prompt.
    """

    openai: Endpoint
    client_request: type[ClientRequest]
    relay_request: type[RelayRequest]
    example: Mapping[str, object]
    many_prompts: bool
    check: Callable[[str, Any, ServedModel], object]
    derender: Callable[
        [RequestedModel, Any, Sequence[Prompt], Sequence[GenerateResponse], int],
        ChatCompletion | TextCompletion,
    ]


def _check_chat(path: str, client: ClientChatRequest | None, model: ServedModel) -> object:
    return read_chat_options(path, client, model.parsers, whole_calls=True)


def _derender_chat(
    requested: RequestedModel,
    client: ClientChatRequest,
    prompts: Sequence[Prompt],
    responses: Sequence[GenerateResponse],
    created: int,
) -> ChatCompletion:
    ((prompt,), (response,)) = prompts, responses
    model, name = requested
    return chat_completion(
        model,
        read_chat_options("chat_request", client, model.parsers, whole_calls=True),
        response,
        choices.Prompt(prompt.token_ids, len(prompt.token_ids)),
        name=name,
        created=created,
        stops_reported=False,
    )


def _check_completion(path: str, client: ClientCompletionRequest | None, _: ServedModel) -> None:
    if client is None:
        return
    check_client_request(path, client)
    if client.echo:
        raise BadRequest("echo is not supported: an answer can't contain its prompt", param=f"{path}.echo")


def _derender_completion(
    requested: RequestedModel,
    client: ClientCompletionRequest,
    prompts: Sequence[Prompt],
    responses: Sequence[GenerateResponse],
    created: int,
) -> TextCompletion:
    return text_completion(
        requested.model,
        client,
        responses,
        [choices.Prompt(prompt.token_ids, len(prompt.token_ids)) for prompt in prompts],
        name=requested.name,
        created=created,
        stops_reported=False,
    )


RELAY_ENDPOINTS: Final = (
    RelayEndpoint(
        openai=CHAT,
        client_request=ClientChatRequest,
        relay_request=ChatRelayRequest,
        example={"messages": [{"role": "user", "content": "Say hello"}]},
        many_prompts=False,
        check=_check_chat,
        derender=_derender_chat,
    ),
    RelayEndpoint(
        openai=COMPLETIONS,
        client_request=ClientCompletionRequest,
        relay_request=CompletionRelayRequest,
        example={"prompt": "Once upon a time"},
        many_prompts=True,
        check=_check_completion,
        derender=_derender_completion,
    ),
)
