"""The derender requests of streams, and what they are answered with (protocol/README.md, "Requests")."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field, NonNegativeInt, model_validator
from pydantic_core import PydanticCustomError

from .base import TokenCount, WireModel
from .derender import ChatRequest, ClientRequest, CompletionRequest
from .generate import GenerateChunk
from .openai import ChatCompletionChunk, TextCompletionChunk

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
    """Where derendering a stream is. Opaque: send it back as it came."""

    version: int = Field(description="The form of `data`. A state of another version is refused.")
    data: str = Field(description="The state.")
    signature: str | None = Field(
        default=None, description="Authenticates the state, where `DERENDER_STATE_KEY` is set."
    )


class StreamRequest(WireModel):
    """What streamed requests have in common: some more of a generation, to become chunks of a stream."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["generate_chunk"], "properties": {"generate_chunk": {"type": "object"}}},
                {"required": ["generate_chunks"], "properties": {"generate_chunks": {"type": "array"}}},
            ]
        }
    )

    stream: Literal[True] = Field(description="`true`: some more of a generation.")
    model: str | None = Field(default=None, description="Name of the model; the default one if not given.")
    generate_chunk: GenerateChunk | None = Field(
        default=None, description="One event of the generate server's stream; the answer is `{chunk, …}`."
    )
    generate_chunks: list[GenerateChunk] | None = Field(
        default=None,
        min_length=1,
        description="Or several in a row; the answer is `{chunks, …}`, as if they had been sent one by one.",
    )
    stream_state: StreamState | None = Field(
        default=None, description="Null first, then what the last answer returned."
    )
    prompt_tokens: TokenCount | None = Field(
        default=None, description="Length of the prompt in tokens, for a `usage` that a chunk has."
    )
    prompt_token_ids: list[NonNegativeInt] | None = Field(
        default=None,
        description="Ids of the prompt or its last few: decoding continues the prompt. Read with the first "
        "chunk; later ones may repeat them.",
    )

    @property
    def client(self) -> ClientRequest | None:
        """The request that the client sent."""
        return None

    @property
    def chunks(self) -> list[GenerateChunk]:
        """What was generated."""
        return [self.generate_chunk] if self.generate_chunk else self.generate_chunks or []

    @model_validator(mode="after")
    def _chunk_or_chunks(self) -> Self:
        if (self.generate_chunk is None) == (self.generate_chunks is None):
            raise PydanticCustomError("chunks", "send either generate_chunk or generate_chunks")
        return self


class ChatStreamRequest(StreamRequest):
    """Some more of a generation, to become chunks of a streamed chat completion."""

    chat_request: ChatRequest | None = Field(
        default=None,
        description="The request that the client sent, the same with each chunk. Needed where a tool-call or "
        "reasoning parser is configured.",
    )

    @property
    def client(self) -> ChatRequest | None:
        """The request that the client sent."""
        return self.chat_request


class CompletionStreamRequest(StreamRequest):
    """Some more of a generation, to become chunks of a streamed text completion."""

    completion_request: CompletionRequest | None = Field(
        default=None, description="The request that the client sent, the same with each chunk."
    )

    @property
    def client(self) -> CompletionRequest | None:
        """The request that the client sent."""
        return self.completion_request


class ChatChunk(WireModel):
    """Answer of `POST /v1/chat/completions/derender` to one generate chunk."""

    chunk: ChatCompletionChunk = Field(description="What it adds to the answer.")
    stream_state: StreamState = Field(description="To be sent with the next one.")


class ChatChunks(WireModel):
    """Answer of `POST /v1/chat/completions/derender` to several generate chunks."""

    chunks: list[ChatCompletionChunk] = Field(description="What each of them adds to the answer.")
    stream_state: StreamState = Field(description="To be sent with the next ones.")


class CompletionChunk(WireModel):
    """Answer of `POST /v1/completions/derender` to one generate chunk."""

    chunk: TextCompletionChunk = Field(description="What it adds to the answer.")
    stream_state: StreamState = Field(description="To be sent with the next one.")


class CompletionChunks(WireModel):
    """Answer of `POST /v1/completions/derender` to several generate chunks."""

    chunks: list[TextCompletionChunk] = Field(description="What each of them adds to the answer.")
    stream_state: StreamState = Field(description="To be sent with the next ones.")
