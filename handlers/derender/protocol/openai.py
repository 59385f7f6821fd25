"""The OpenAI responses, with the fields that vLLM adds (OpenAI API reference, "Chat", "Completions")."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from .base import Json, WireModel

__all__ = [
    "ChatChoice",
    "ChatCompletion",
    "ChatLogprobs",
    "ChatMessage",
    "CompletionChoice",
    "CompletionLogprobs",
    "Error",
    "ErrorResponse",
    "Model",
    "ModelList",
    "TextCompletion",
    "Usage",
]


def _described_by(model: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"$ref": f"#/components/schemas/{model}"}, {"type": "null"}]})


# Written as JSON where they are made: an answer holds thousands of candidates.
WrittenChatLogprobs = Annotated[Any, _described_by("ChatLogprobs")]
WrittenCompletionLogprobs = Annotated[Any, _described_by("CompletionLogprobs")]


class TopLogprob(WireModel):
    """A candidate at one position."""

    token: str = Field(description="The token's text; empty where the token ends inside a character.")
    logprob: float = Field(description="Natural logarithm of its probability.")
    bytes: list[int] | None = Field(description="The token's own bytes.")


class TokenLogprob(TopLogprob):
    """The sampled token at one position."""

    top_logprobs: list[TopLogprob] = Field(description="Candidates: the sampled token, then by rank.")


class ChatLogprobs(WireModel):
    """Log probabilities of a chat choice."""

    content: list[TokenLogprob] | None = Field(description="One entry for each generated token.")


class CompletionLogprobs(WireModel):
    """Log probabilities of a completion choice, as parallel lists."""

    tokens: list[str] = Field(default_factory=list, description="The sampled tokens' texts.")
    token_logprobs: list[float | None] = Field(default_factory=list, description="Their log probabilities.")
    top_logprobs: list[dict[str, float] | None] = Field(
        default_factory=list, description="Text → log probability of the candidates; null where none came."
    )
    text_offset: list[int] = Field(
        default_factory=list, description="Where each token starts, in characters of the tokens' texts."
    )


class ChatMessage(WireModel):
    """The assistant's message."""

    role: Literal["assistant"] = "assistant"
    content: str | None = Field(default=None, description="The text.")
    refusal: str | None = None
    annotations: Json = None
    audio: Json = None
    function_call: Json = None
    reasoning: str | None = Field(default=None, description="The text thought before the answer.")


class ChatChoice(WireModel):
    """One answer."""

    index: int
    message: ChatMessage
    logprobs: WrittenChatLogprobs = None
    finish_reason: str | None = Field(description="`stop`, `length`, `tool_calls`, or the engine's own.")
    stop_reason: int | str | None = Field(default=None, description="The stop string or stop token id, if any.")
    token_ids: list[int] | None = Field(default=None, description="The generated ids, if asked for.")
    routed_experts: Json = None
    weight_versions: Json = None


class Usage(WireModel):
    """Tokens in and out."""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int = Field(description="Ids received, the stop token included.")
    prompt_tokens_details: Json = None
    completion_tokens_details: Json = None


class ChatCompletion(WireModel):
    """Answer of `POST /v1/chat/completions/derender`."""

    id: str = Field(description="The generate response's `request_id`.")
    object: Literal["chat.completion"] = "chat.completion"
    created: int = Field(description="Unix time in seconds.")
    model: str
    choices: list[ChatChoice]
    service_tier: str | None = None
    system_fingerprint: str | None = None
    usage: Usage
    prompt_logprobs: Json = None
    prompt_token_ids: list[int] | None = None
    prompt_text: str | None = None
    kv_transfer_params: Json = None
    ec_transfer_params: Json = None
    metrics: Json = None


class CompletionChoice(WireModel):
    """One continuation."""

    index: int = Field(description="Numbered on across the prompts.")
    text: str
    logprobs: WrittenCompletionLogprobs = None
    finish_reason: str | None = Field(description="`stop`, `length`, or the engine's own.")
    stop_reason: int | str | None = Field(default=None, description="The stop string or stop token id, if any.")
    token_ids: list[int] | None = Field(default=None, description="The generated ids, if asked for.")
    prompt_logprobs: Json = None
    prompt_token_ids: list[int] | None = None
    routed_experts: Json = None
    weight_versions: Json = None


class TextCompletion(WireModel):
    """Answer of `POST /v1/completions/derender`."""

    id: str = Field(description="The first generate response's `request_id`.")
    object: Literal["text_completion"] = "text_completion"
    created: int = Field(description="Unix time in seconds.")
    model: str
    choices: list[CompletionChoice]
    service_tier: str | None = None
    system_fingerprint: str | None = None
    usage: Usage
    kv_transfer_params: Json = Field(default=None, description="Where all generate responses agree.")
    ec_transfer_params: Json = Field(default=None, description="Where all generate responses agree.")
    metrics: Json = Field(default=None, description="For a single generate response.")


class Model(WireModel):
    """A name that requests may use."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["derender"] = "derender"
    root: str = Field(description="Name of the vocabulary it stands for.")
    parent: None = None
    max_model_len: int


class ModelList(WireModel):
    """Answer of `GET /v1/models`."""

    object: Literal["list"] = "list"
    data: list[Model]


class Error(WireModel):
    """What is wrong, and what to change."""

    message: str
    type: str = Field(examples=["BadRequestError"])
    param: str | None = Field(default=None, description="The field that is wrong.")
    code: int = Field(description="The HTTP status.", examples=[400])


class ErrorResponse(WireModel):
    """Every answer that is no success."""

    error: Error
