"""Streamed derender requests and their responses (README.md, "Streams")."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field, NonNegativeInt, model_validator
from pydantic_core import PydanticCustomError

from .base import TokenCount, WireModel
from .client import ChatRequest, CompletionRequest
from .generate import GenerateChunk
from .openai.chat import ChatCompletionChunk
from .openai.completions import TextCompletionChunk

__all__ = [
    "ChatChunk",
    "ChatChunks",
    "ChatStreamRequest",
    "CompletionChunk",
    "CompletionChunks",
    "CompletionStreamRequest",
    "StreamRequest",
    "StreamState",
]


class StreamState(WireModel):
    """The state of a stream. It is opaque: send it back unchanged."""

    version: int = Field(description="Version of `data`. States of other versions are refused.")
    data: str = Field(description="The state.")
    signature: str | None = Field(
        default=None, description="Authenticates the state, if `DERENDER_STATE_KEY` is set."
    )


class StreamRequest(WireModel):
    """The next generate chunks of a generation, to become chunks of a client's stream."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["generate_chunk"], "properties": {"generate_chunk": {"type": "object"}}},
                {"required": ["generate_chunks"], "properties": {"generate_chunks": {"type": "array"}}},
            ]
        }
    )

    stream: Literal[True] = Field(description="`true` for a streamed generation.")
    model: str | None = Field(
        default=None, description="Name of the model. The default model is used if there is none."
    )
    generate_chunk: GenerateChunk | None = Field(
        default=None, description="One event of the generate server's stream. The response is `{chunk, …}`."
    )
    generate_chunks: list[GenerateChunk] | None = Field(
        default=None,
        min_length=1,
        description="Several events, in order. The response is `{chunks, …}`, as if they had been sent singly.",
    )
    stream_state: StreamState | None = Field(
        default=None, description="Null at first, then the `stream_state` of the last response."
    )
    prompt_tokens: TokenCount | None = Field(
        default=None, description="Length of the prompt in tokens, for chunks with `usage`."
    )
    prompt_token_ids: list[NonNegativeInt] | None = Field(
        default=None,
        description="Ids of the prompt or the last few of them. Decoding continues the prompt. They are read "
        "with the first chunk; later requests may repeat them.",
    )

    @property
    def chunks(self) -> list[GenerateChunk]:
        """The generate chunks."""
        return [self.generate_chunk] if self.generate_chunk else self.generate_chunks or []

    @model_validator(mode="after")
    def _chunk_or_chunks(self) -> Self:
        if (self.generate_chunk is None) == (self.generate_chunks is None):
            raise PydanticCustomError("chunks", "send either generate_chunk or generate_chunks")
        return self


class ChatStreamRequest(StreamRequest):
    """The next generate chunks of a generation, to become chunks of a chat completion."""

    chat_request: ChatRequest | None = Field(
        default=None,
        description="The request that the client sent, the same in all requests of the stream. Required if a "
        "tool-call or reasoning parser is configured.",
    )

    @property
    def client(self) -> ChatRequest | None:
        """The client's request."""
        return self.chat_request


class CompletionStreamRequest(StreamRequest):
    """The next generate chunks of a generation, to become chunks of a text completion."""

    completion_request: CompletionRequest | None = Field(
        default=None,
        description="The request that the client sent, the same in all requests of the stream.",
    )

    @property
    def client(self) -> CompletionRequest | None:
        """The client's request."""
        return self.completion_request


class ChatChunk(WireModel):
    """The response of `POST /v1/chat/completions/derender` to one generate chunk."""

    chunk: ChatCompletionChunk = Field(description="The chunk for the client.")
    stream_state: StreamState = Field(description="The state to send with the next generate chunk.")


class ChatChunks(WireModel):
    """The response of `POST /v1/chat/completions/derender` to several generate chunks."""

    chunks: list[ChatCompletionChunk] = Field(description="The chunks for the client, one per generate chunk.")
    stream_state: StreamState = Field(description="The state to send with the next generate chunks.")


class CompletionChunk(WireModel):
    """The response of `POST /v1/completions/derender` to one generate chunk."""

    chunk: TextCompletionChunk = Field(description="The chunk for the client.")
    stream_state: StreamState = Field(description="The state to send with the next generate chunk.")


class CompletionChunks(WireModel):
    """The response of `POST /v1/completions/derender` to several generate chunks."""

    chunks: list[TextCompletionChunk] = Field(description="The chunks for the client, one per generate chunk.")
    stream_state: StreamState = Field(description="The state to send with the next generate chunks.")
