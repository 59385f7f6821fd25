"""The relay's requests, and what it asks a generate server for them (README.md, "What is asked")."""

from __future__ import annotations

from typing import Annotated, Any, Final

import orjson
from pydantic import ConfigDict, Field, NonNegativeInt, StringConstraints

from derender.errors import BadGateway, BadRequest
from derender.protocol.base import WireModel
from derender.protocol.derender import ChatRequest, CompletionRequest
from derender.protocol.generate import MAX_REQUEST_ID

__all__ = [
    "ChatRelayRequest",
    "ClientChatRequest",
    "ClientCompletionRequest",
    "ClientRequest",
    "CompletionRelayRequest",
    "GenerateRequest",
    "RelayRequest",
    "StreamOptions",
    "choices_asked",
    "generate_request_body",
    "read_rendered",
]

DELTA: Final = 1
"""`output_kind`: each event holds what is new."""
FINAL_ONLY: Final = 2
"""`output_kind`: there is one answer, of all."""


class StreamOptions(WireModel):
    """Options of a stream."""

    include_usage: bool | None = Field(default=None, description="A chunk of usage at the end.")
    continuous_usage_stats: bool | None = Field(default=None, description="Usage in every chunk, too.")


class ClientRequest(WireModel):
    """What the relay reads of a client's request, besides what derendering does."""

    model: str | None = Field(default=None, description="Name of the model; the default one if not given.")
    stream: bool = Field(default=False, description="Whether to answer while it is generated.")
    stream_options: StreamOptions = Field(
        default_factory=StreamOptions, description="What else a stream is to hold."
    )
    n: Annotated[int, Field(ge=1)] = Field(default=1, description="How many choices are generated.")
    echo: bool = Field(default=False, description="Refused: an answer holds no prompt.")

    @property
    def continuous_usage(self) -> bool:
        """Whether usage is wanted in every chunk."""
        return bool(self.stream_options.include_usage and self.stream_options.continuous_usage_stats)


class ClientChatRequest(ClientRequest, ChatRequest):
    """A `/v1/chat/completions` request."""


class ClientCompletionRequest(ClientRequest, CompletionRequest):
    """A `/v1/completions` request."""


class GenerateRequest(WireModel):
    """What a generate server is asked. All that is not said here is passed on as it came."""

    model_config = ConfigDict(extra="allow")

    request_id: Annotated[str, StringConstraints(min_length=1, max_length=MAX_REQUEST_ID)] | None = Field(
        default=None, description="Becomes the `id` of the answer; made where there is none."
    )
    token_ids: list[NonNegativeInt] = Field(description="Ids of the prompt.")
    sampling_params: dict[str, Any] | None = Field(default=None, description="How to generate.")
    stream_options: dict[str, Any] | None = Field(default=None, description="What else a stream is to hold.")


class RelayRequest(WireModel):
    """What the relay's own routes have in common."""

    upstream: str | None = Field(
        default=None, description="Name of the generate server to ask; the default one if not given."
    )
    model: str | None = Field(default=None, description="Name of the model; the client's if not given.")
    generate_request: GenerateRequest = Field(description="What the generate server is asked.")

    @property
    def client(self) -> ClientRequest | None:
        """The request that the client sent."""
        return None


class ChatRelayRequest(RelayRequest):
    """A generation to be relayed to a chat client."""

    chat_request: ClientChatRequest | None = Field(
        default=None,
        description="The request that the client sent. Needed where a tool-call or reasoning parser is "
        "configured.",
    )

    @property
    def client(self) -> ClientChatRequest | None:
        """The request that the client sent."""
        return self.chat_request


class CompletionRelayRequest(RelayRequest):
    """A generation to be relayed to a completions client."""

    completion_request: ClientCompletionRequest | None = Field(
        default=None, description="The request that the client sent."
    )

    @property
    def client(self) -> ClientCompletionRequest | None:
        """The request that the client sent."""
        return self.completion_request


def choices_asked(request: GenerateRequest, client: ClientRequest) -> int:
    """How many choices a generate request asks for: what the server reads, or else what the client wrote.

    Raises:
        BadRequest: It is no number of choices.
    """
    number = (request.sampling_params or {}).get("n")
    if number is None:
        return client.n
    if type(number) is not int or number < 1:
        raise BadRequest(
            "sampling_params.n may be an integer from 1 on", param="generate_request.sampling_params.n"
        )
    return number


def generate_request_body(request: GenerateRequest, request_id: str, client: ClientRequest) -> bytes:
    """What is sent to the generate server.

    Args:
        request: The generate request, as it came.
        request_id: Its id.
        client: What the client asked: whether to stream.

    Raises:
        BadRequest: It holds what can be read but not be written again.
    """
    sampling_params, stream_options = dict(request.sampling_params or {}), None
    if client.stream:
        sampling_params["output_kind"] = DELTA
        stream_options = {
            **(request.stream_options or {}),
            "include_usage": True,
            "continuous_usage_stats": client.continuous_usage,
        }
    elif sampling_params.get("output_kind") not in (None, FINAL_ONLY):
        sampling_params["output_kind"] = FINAL_ONLY
    asked = {
        **(request.model_extra or {}),
        "token_ids": request.token_ids,
        "request_id": request_id,
        "sampling_params": sampling_params,
        "stream": client.stream,
        "stream_options": stream_options,
    }
    try:
        return orjson.dumps(asked)
    except TypeError:
        raise BadRequest(
            "generate_request holds an integer of more than 64 bits, or is nested too deeply",
            param="generate_request",
        ) from None


def read_rendered(content: bytes) -> list[GenerateRequest]:
    """The generate requests that a render service answers with: one, or a list of one for each prompt.

    Raises:
        BadGateway: It answers with something else.
    """
    try:
        answer = orjson.loads(content)
        requests = answer if isinstance(answer, list) else [answer]
        rendered = [GenerateRequest.model_validate(request) for request in requests]
    except ValueError:  # that of a wire model is one, too
        rendered = []
    if not rendered:
        raise BadGateway("the render service answered with something that is no generate request")
    return rendered
