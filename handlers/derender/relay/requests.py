"""The requests to the relay's routes, as wire models."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any

from pydantic import ConfigDict, Field, NonNegativeInt, StringConstraints

from derender.protocol.base import WireModel
from derender.protocol.client import ChatRequest, CompletionRequest, StopStrings
from derender.protocol.client import ClientRequest as DerenderedRequest
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
]


class StreamOptions(WireModel):
    """Options of a stream."""

    include_usage: bool | None = Field(default=None, description="End the stream with a chunk of usage.")
    continuous_usage_stats: bool | None = Field(default=None, description="Add usage to every chunk.")


class ClientRequest(DerenderedRequest):
    """A client's request, with the fields that only the relay reads."""

    model: str | None = Field(default=None, description="Name of the model; the default one if not given.")
    stream: bool = Field(default=False, description="Stream the answer while it is generated.")
    stream_options: StreamOptions = Field(default_factory=StreamOptions, description="Options of the stream.")
    n: Annotated[int, Field(ge=1)] = Field(default=1, description="How many choices to generate.")

    @property
    def continuous_usage(self) -> bool:
        """Whether every chunk contains usage."""
        return bool(self.stream_options.include_usage and self.stream_options.continuous_usage_stats)


class ClientChatRequest(ClientRequest, ChatRequest):
    """A `/v1/chat/completions` request."""


class ClientCompletionRequest(ClientRequest, CompletionRequest):
    """A `/v1/completions` request."""


class SamplingParams(WireModel):
    """Sampling parameters. The relay passes on unknown ones as they came."""

    model_config = ConfigDict(extra="allow")

    stop: StopStrings | None = Field(
        default=None, description="A stop string, or a list of them. The relay looks for them itself."
    )
    include_stop_str_in_output: bool | None = Field(
        default=None, description="Keep the stop string in the text."
    )
    min_tokens: NonNegativeInt | None = Field(
        default=None, description="A stop string counts only if it ends after this many tokens."
    )

    @property
    def sent(self) -> dict[str, Any]:
        """The parameters that were sent."""
        known = SamplingParams.model_fields.keys() & self.model_fields_set
        return {**(self.model_extra or {}), **{name: getattr(self, name) for name in known}}


class GenerateRequest(WireModel):
    """A request to a generate server. The relay passes on unknown fields as they came."""

    model_config = ConfigDict(extra="allow")

    request_id: Annotated[str, StringConstraints(min_length=1, max_length=MAX_REQUEST_ID)] | None = Field(
        default=None, description="Becomes the `id` of the answer; random if not given."
    )
    model: str | None = Field(
        default=None, description="Name of the model, if the generate server has it; otherwise it gets its own."
    )
    token_ids: list[NonNegativeInt] = Field(description="Token ids of the prompt.")
    sampling_params: SamplingParams | None = Field(default=None, description="Sampling parameters.")
    stream_options: dict[str, Any] | None = Field(
        default=None, description="Options of the generate server's stream."
    )


class RelayRequest(WireModel):
    """The fields that requests to both relay routes share."""

    upstream: str | None = Field(
        default=None, description="Name of the generate server; the default one if not given."
    )
    model: str | None = Field(default=None, description="Name of the model; the client's if not given.")
    generate_request: GenerateRequest = Field(description="The request to the generate server.")

    @property
    @abstractmethod
    def client(self) -> ClientRequest | None:
        """The client's request."""


class ChatRelayRequest(RelayRequest):
    """A generate request, to be answered as a chat completion."""

    chat_request: ClientChatRequest | None = Field(
        default=None,
        description="The client's request. Required if a tool-call or reasoning parser is configured.",
    )

    @property
    def client(self) -> ClientChatRequest | None:
        """The client's request."""
        return self.chat_request


class CompletionRelayRequest(RelayRequest):
    """A generate request, to be answered as a text completion."""

    completion_request: ClientCompletionRequest | None = Field(
        default=None, description="The client's request."
    )

    @property
    def client(self) -> ClientCompletionRequest | None:
        """The client's request."""
        return self.completion_request
