"""What is different in relaying chat and text completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from derender.answers.chat import derender_chat
from derender.answers.completions import derender_completion
from derender.answers.message import check_chat_request
from derender.errors import BadRequest
from derender.protocol.derender import ChatDerenderRequest, CompletionDerenderRequest
from derender.protocol.limits import check_client_request
from derender.streaming import chat_generation, completion_generation

from .requests import (
    ChatRelayRequest,
    ClientChatRequest,
    ClientCompletionRequest,
    CompletionRelayRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from derender.models.model import ServedModel
    from derender.protocol.generate import GenerateResponse
    from derender.protocol.openai import ChatCompletion, TextCompletion

    from .answers import Prompt
    from .requests import ClientRequest, RelayRequest

__all__ = ["CHAT", "COMPLETIONS", "Endpoint", "Whole"]


class Whole(NamedTuple):
    """Complete generations, to be derendered."""

    model: ServedModel
    name: str
    """What the client calls the model."""
    client: Any
    """What the client asked: the endpoint's request."""
    prompts: Sequence[Prompt]
    responses: Sequence[GenerateResponse]
    """One for each prompt."""
    created: int
    """Unix time in seconds."""


@dataclass(frozen=True)
class Endpoint:
    """How one kind of request is relayed.

    Attributes:
        name: What is made.
        field: Where the client's request is in the relay's.
        client_request: The client's request.
        relay_request: The relay's.
        render_path: Where the render service renders such requests.
        several: Whether one may have several prompts.
        check: Refuses what can't be answered.
        generation: How a generation is derendered while it comes; the request's path is given.
        derender: Derenders complete generations.
    """

    name: str
    field: str
    client_request: type[ClientRequest]
    relay_request: type[RelayRequest]
    render_path: str
    several: bool
    check: Callable[[str, Any, ServedModel], None]
    generation: Callable[[ServedModel, str, str, Any], Any]
    derender: Callable[[Whole], ChatCompletion | TextCompletion]


def _check_chat(path: str, client: ClientChatRequest | None, model: ServedModel) -> None:
    check_chat_request(path, client, model.parsers)


def _check_completion(path: str, client: ClientCompletionRequest | None, _: ServedModel) -> None:
    if client is None:
        return
    check_client_request(path, client)
    if client.echo:
        raise BadRequest("an answer can't begin with its prompt; leave echo out", param=f"{path}.echo")


def _chat_answer(whole: Whole) -> ChatCompletion:
    ((prompt,), (response,)) = whole.prompts, whole.responses
    request = ChatDerenderRequest(
        generate_response=response,
        prompt_tokens=len(prompt.token_ids),
        prompt_token_ids=list(prompt.token_ids),
        chat_request=whole.client,
    )
    return derender_chat(request, whole.model, whole.name, whole.created, unseen_stops=True)


def _completion_answer(whole: Whole) -> TextCompletion:
    request = CompletionDerenderRequest(
        generate_responses=list(whole.responses),
        prompt_tokens=[len(prompt.token_ids) for prompt in whole.prompts],
        prompt_token_ids=[list(prompt.token_ids) for prompt in whole.prompts],
        completion_request=whole.client,
    )
    return derender_completion(request, whole.model, whole.name, whole.created, unseen_stops=True)


CHAT: Final = Endpoint(
    name="chat completion",
    field="chat_request",
    client_request=ClientChatRequest,
    relay_request=ChatRelayRequest,
    render_path="/v1/chat/completions/render",
    several=False,
    check=_check_chat,
    generation=lambda model, name, path, client: chat_generation(model, name, path, client, None),
    derender=_chat_answer,
)
COMPLETIONS: Final = Endpoint(
    name="text completion",
    field="completion_request",
    client_request=ClientCompletionRequest,
    relay_request=CompletionRelayRequest,
    render_path="/v1/completions/render",
    several=True,
    check=_check_completion,
    generation=lambda model, name, path, client: completion_generation(model, name, path, client, None),
    derender=_completion_answer,
)
