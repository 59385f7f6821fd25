"""Derender requests with complete generations (README.md, "Requests")."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt
from pydantic_core import PydanticCustomError

from .base import TokenCount, WireModel
from .client import ChatRequest, CompletionRequest
from .generate import GenerateResponse

__all__ = ["ChatDerenderRequest", "CompletionDerenderRequest"]


def _exactly_a_boolean(value: Any) -> Any:
    """Refuse 0, which equals false."""
    if not isinstance(value, bool):
        raise PydanticCustomError("boolean", "Input should be false")
    return value


NotStreamed = Annotated[Literal[False], BeforeValidator(_exactly_a_boolean)]


class ChatDerenderRequest(WireModel):
    """A complete generation, to become a chat completion."""

    stream: NotStreamed = Field(default=False, description="`false` for a complete generation.")
    model: str | None = Field(
        default=None, description="Name of the model. The default model is used if there is none."
    )
    generate_response: GenerateResponse = Field(description="The generate server's response.")
    prompt_tokens: TokenCount | None = Field(
        default=None,
        description="Length of the prompt in tokens, for `usage`. Defaults to what the generate response says.",
        examples=[7],
    )
    prompt_token_ids: list[NonNegativeInt] | None = Field(
        default=None,
        description="Ids of the prompt or the last few of them. Decoding continues the prompt, so that a "
        "SentencePiece model's first word keeps its leading space; the prompt's end tells whether the output "
        "begins with reasoning.",
    )
    chat_request: ChatRequest | None = Field(
        default=None,
        description="The request that the client sent. Required if there is a tool-call or reasoning parser.",
    )

    @property
    def client(self) -> ChatRequest | None:
        """The client's request."""
        return self.chat_request


class CompletionDerenderRequest(WireModel):
    """Complete generations, one for each prompt, to become one text completion."""

    stream: NotStreamed = Field(default=False, description="`false` for complete generations.")
    model: str | None = Field(
        default=None, description="Name of the model. The default model is used if there is none."
    )
    generate_responses: list[GenerateResponse] = Field(
        description="The generate server's responses, one for each prompt. Must not be empty."
    )
    prompt_tokens: list[TokenCount] | None = Field(
        default=None,
        description="Lengths of the prompts in tokens, for `usage`. Defaults to what the responses say.",
        examples=[[7]],
    )
    prompt_token_ids: list[list[NonNegativeInt] | None] | None = Field(
        default=None, description="For each prompt its ids, the last few of them, or null."
    )
    completion_request: CompletionRequest | None = Field(
        default=None, description="The request that the client sent."
    )

    @property
    def client(self) -> CompletionRequest | None:
        """The client's request."""
        return self.completion_request
