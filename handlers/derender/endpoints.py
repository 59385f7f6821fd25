"""Endpoints of the OpenAI API: their derender requests, their responses, and what turns one into the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .answers.chat import derender_chat
from .answers.completions import derender_completion
from .protocol.complete import ChatDerenderRequest, CompletionDerenderRequest
from .protocol.openai.chat import ChatCompletion, ChatCompletionChunk
from .protocol.openai.completions import TextCompletion, TextCompletionChunk
from .protocol.reading import read_either
from .protocol.stream import ChatStreamRequest, CompletionStreamRequest
from .streaming import Derendered, chat_generation, completion_generation, derender_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .models.model import Models, ServedModel
    from .streaming import Generation

    CompleteRequest = ChatDerenderRequest | CompletionDerenderRequest
    StreamRequest = ChatStreamRequest | CompletionStreamRequest
    Response = ChatCompletion | TextCompletion
    Chunk = ChatCompletionChunk | TextCompletionChunk

__all__ = ["CHAT", "COMPLETIONS", "ENDPOINTS", "Answer", "Endpoint", "answer", "answer_request"]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An endpoint of the OpenAI API.

    Attributes:
        path: The path of the OpenAI API.
        kind: What a response is, in words.
        client_field: The field of derender requests that holds the client's own request.
        complete: The derender request with complete generations.
        response: The response to it.
        derender: Derenders a complete request: `(request, model, name, created)`.
        streamed: The derender request with part of a generation.
        chunk: A chunk of the stream.
        generation: Prepares to derender a streamed generation: `(model, name, path, client, prompt_tokens)`,
            with the path to the client's request, for errors.
    """

    path: str
    kind: str
    client_field: str
    complete: type[CompleteRequest]
    response: type[Response]
    derender: Callable[[Any, ServedModel, str, int], Response]
    streamed: type[StreamRequest]
    chunk: type[Chunk]
    generation: Callable[[ServedModel, str, str, Any, int | None], Generation[Any, Chunk]]

    @property
    def derender_path(self) -> str:
        """The path that derender requests are posted to."""
        return f"{self.path}/derender"


class Answer(NamedTuple):
    """A derender request and the answer to it."""

    request: CompleteRequest | StreamRequest
    model: ServedModel
    content: Response | Derendered[Chunk]
    """The response to a complete request; chunks and state for a streamed one."""


CHAT: Final = Endpoint(
    path="/v1/chat/completions",
    kind="chat completion",
    client_field="chat_request",
    complete=ChatDerenderRequest,
    response=ChatCompletion,
    derender=derender_chat,
    streamed=ChatStreamRequest,
    chunk=ChatCompletionChunk,
    generation=chat_generation,
)
COMPLETIONS: Final = Endpoint(
    path="/v1/completions",
    kind="text completion",
    client_field="completion_request",
    complete=CompletionDerenderRequest,
    response=TextCompletion,
    derender=derender_completion,
    streamed=CompletionStreamRequest,
    chunk=TextCompletionChunk,
    generation=completion_generation,
)
ENDPOINTS: Final[Mapping[str, Endpoint]] = {each.derender_path: each for each in (CHAT, COMPLETIONS)}
"""Endpoints by the path that derender requests are posted to."""


def answer(endpoint: Endpoint, models: Models, body: bytes, created: int) -> Answer:
    """Read a derender request and answer it.

    Args:
        endpoint: The endpoint it was posted to.
        models: The models served.
        body: The request as JSON.
        created: Unix time in seconds, for the response.

    Raises:
        DerenderError: The request can't be answered.
    """
    return answer_request(endpoint, models, read_either(endpoint.complete, endpoint.streamed, body), created)


def answer_request(
    endpoint: Endpoint, models: Models, request: CompleteRequest | StreamRequest, created: int
) -> Answer:
    """Answer a derender request.

    Args:
        endpoint: The endpoint it was posted to.
        models: The models served.
        request: The request, one of the endpoint's two.
        created: Unix time in seconds, for the response.

    Raises:
        DerenderError: The request can't be answered.
    """
    client = request.client
    model, name = models.find(request.model, client.model if client else None)
    if isinstance(request, endpoint.complete):
        return Answer(request, model, endpoint.derender(request, model, name, created))
    assert isinstance(request, endpoint.streamed)
    generation = endpoint.generation(model, name, endpoint.client_field, client, request.prompt_tokens)
    return Answer(request, model, derender_chunks(generation, request, created))
