"""What can be derendered: for each path, JSON that was posted → what it is answered with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .answers.chat import derender_chat
from .answers.completions import derender_completion
from .protocol.derender import ChatDerenderRequest, CompletionDerenderRequest
from .protocol.reading import read_either
from .protocol.stream import ChatStreamRequest, CompletionStreamRequest
from .streaming import derender_chat_stream, derender_completion_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .models.model import Models, ServedModel
    from .protocol.base import WireModel
    from .protocol.stream import StreamRequest
    from .streaming import Derendered

__all__ = ["ENDPOINTS", "Answer", "CompleteRequest", "Endpoint", "answer", "answer_request"]

CompleteRequest = ChatDerenderRequest | CompletionDerenderRequest


class Endpoint(NamedTuple):
    """What may be posted to a path, and how it is derendered."""

    path: str
    kind: str
    """What the answer is."""
    complete: type[CompleteRequest]
    """Complete generations."""
    derender: Callable[[Any, ServedModel, int], WireModel]
    streamed: type[StreamRequest]
    """Some more of a generation."""
    derender_stream: Callable[[Any, ServedModel, int], Derendered[WireModel]]


class Answer(NamedTuple):
    """What a request is answered with, and what it was."""

    request: CompleteRequest | StreamRequest
    model: ServedModel
    content: WireModel | Derendered[WireModel]
    """The response; of a streamed request its chunks and the state."""


CHAT: Final = Endpoint(
    "/v1/chat/completions/derender",
    "chat completion",
    ChatDerenderRequest,
    derender_chat,
    ChatStreamRequest,
    derender_chat_stream,
)
COMPLETIONS: Final = Endpoint(
    "/v1/completions/derender",
    "text completion",
    CompletionDerenderRequest,
    derender_completion,
    CompletionStreamRequest,
    derender_completion_stream,
)
ENDPOINTS: Final[Mapping[str, Endpoint]] = {each.path: each for each in (CHAT, COMPLETIONS)}
"""Path → what is posted there."""


def answer(endpoint: Endpoint, models: Models, body: bytes, created: int) -> Answer:
    """Derender what was posted.

    Args:
        endpoint: Where it was posted.
        models: The models served.
        body: JSON.
        created: Unix time in seconds, for the response.

    Raises:
        DerenderError: The request can't be answered.
    """
    return answer_request(endpoint, models, read_either(endpoint.complete, endpoint.streamed, body), created)


def answer_request(
    endpoint: Endpoint, models: Models, request: CompleteRequest | StreamRequest, created: int
) -> Answer:
    """Derender a request that was read.

    Args:
        endpoint: Where it was posted.
        models: The models served.
        request: One of the endpoint's.
        created: Unix time in seconds, for the response.

    Raises:
        DerenderError: The request can't be answered.
    """
    model = models.find(request.model, request.client_model)
    if isinstance(request, endpoint.streamed):
        return Answer(request, model, endpoint.derender_stream(request, model, created))
    return Answer(request, model, endpoint.derender(request, model, created))
