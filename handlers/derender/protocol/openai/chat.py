"""Chat completions, complete and streamed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from ..base import Json, WireModel
from .usage import CHUNK_PROMPT_IDS, NULL, PASSED_ON, PROMPT_IDS, PROMPT_LOGPROBS, Usage

__all__ = [
    "CallBegin",
    "CallDelta",
    "CallingDelta",
    "CallingMessage",
    "ChatChoice",
    "ChatChunkChoice",
    "ChatCompletion",
    "ChatCompletionChunk",
    "ChatDelta",
    "ChatLogprobs",
    "ChatMessage",
    "FunctionCall",
    "FunctionCallDelta",
    "ToolCall",
]

# A response has thousands of candidates. They are written as JSON right away, not as models.
WrittenLogprobs = Annotated[
    Any, WithJsonSchema({"anyOf": [{"$ref": "#/components/schemas/ChatLogprobs"}, {"type": "null"}]})
]


class TopLogprob(WireModel):
    """A candidate at one position."""

    token: str = Field(description="The token's text. Empty if the token ends inside a character.")
    logprob: float = Field(description="Natural logarithm of the probability.")
    bytes: list[int] | None = Field(description="The token's own bytes.")


class TokenLogprob(TopLogprob):
    """The sampled token at one position."""

    top_logprobs: list[TopLogprob] = Field(
        description="The candidates: the sampled token, then the others by rank."
    )


class ChatLogprobs(WireModel):
    """Log probabilities of a chat choice."""

    content: list[TokenLogprob] | None = Field(description="One entry for each generated token.")


class ChatMessage(WireModel):
    """The assistant's message."""

    role: Literal["assistant"] = Field(default="assistant", description="Always `assistant`.")
    content: str | None = Field(default=None, description="The text.")
    refusal: str | None = Field(default=None, description=NULL)
    annotations: Json = Field(default=None, description=NULL)
    audio: Json = Field(default=None, description=NULL)
    function_call: Json = Field(default=None, description=NULL)
    reasoning: str | None = Field(default=None, description="The reasoning before the text.")


class FunctionCall(WireModel):
    """The function of a tool call."""

    name: str = Field(description="Name of the tool.")
    arguments: str = Field(
        description="The arguments: a JSON object, as a string.", examples=['{"city": "Paris"}']
    )


class ToolCall(WireModel):
    """A tool call."""

    id: str = Field(description="The call's id. It is the same whenever the same generation is derendered.")
    type: Literal["function"] = Field(default="function", description="Always `function`.")
    function: FunctionCall = Field(description="The tool and its arguments.")


class CallingMessage(ChatMessage):
    """The assistant's message, with tool calls."""

    tool_calls: list[ToolCall] = Field(
        description="The tool calls, in the model's order. Left out if there are none."
    )


class ChatChoice(WireModel):
    """One choice of a chat completion."""

    index: int = Field(description="The choice's index in the generate response.")
    message: ChatMessage | CallingMessage = Field(description="The assistant's message.")
    logprobs: WrittenLogprobs = Field(default=None, description="Log probabilities, if there are any.")
    finish_reason: str | None = Field(
        description="`stop`, `length`, `tool_calls`, or another reason of the engine."
    )
    stop_reason: int | str | None = Field(
        default=None, description="The stop string or stop token id that ended the generation, if any."
    )
    token_ids: list[int] | None = Field(
        default=None, description="The generated ids, if `return_token_ids` is true."
    )
    routed_experts: Json = Field(default=None, description=PASSED_ON)
    weight_versions: Json = Field(default=None, description=PASSED_ON)


class ChatCompletion(WireModel):
    """The response of `POST /v1/chat/completions/derender` to a complete generation."""

    id: str = Field(description="The `request_id` of the generate response.")
    object: Literal["chat.completion"] = Field(
        default="chat.completion", description="Always `chat.completion`."
    )
    created: int = Field(description="Unix time in seconds.")
    model: str = Field(description="The name that the request used, or the default model's.")
    choices: list[ChatChoice] = Field(description="One choice for each generated sequence.")
    service_tier: str | None = Field(default=None, description=NULL)
    system_fingerprint: str | None = Field(default=None, description=NULL)
    usage: Usage = Field(description="How many tokens went in and came out.")
    prompt_logprobs: Json = Field(default=None, description=PROMPT_LOGPROBS)
    prompt_token_ids: list[int] | None = Field(default=None, description=PROMPT_IDS)
    prompt_text: str | None = Field(default=None, description=NULL)
    kv_transfer_params: Json = Field(default=None, description=PASSED_ON)
    ec_transfer_params: Json = Field(default=None, description=PASSED_ON)
    metrics: Json = Field(default=None, description=PASSED_ON)


class FunctionCallDelta(WireModel):
    """More of a tool call's arguments."""

    arguments: str = Field(description="Text to append to the arguments.")


class CallDelta(WireModel):
    """More of a tool call that began in an earlier chunk."""

    index: int = Field(description="The call's number, from 0.")
    function: FunctionCallDelta = Field(description="More of its arguments.")


class CallBegin(ToolCall):
    """A tool call that begins."""

    index: int = Field(description="The call's number, from 0.")


class ChatDelta(WireModel):
    """What a chunk adds to the assistant's message."""

    role: Literal["assistant"] | None = Field(
        default=None, description="`assistant` in the choice's first chunk."
    )
    content: str | None = Field(default=None, description="More of the text.")
    reasoning: str | None = Field(default=None, description="More of the reasoning.")


class CallingDelta(ChatDelta):
    """What a chunk adds to the assistant's message, with tool calls."""

    tool_calls: list[CallBegin | CallDelta] = Field(
        description="Tool calls that begin, and more of the arguments of others. Left out if there are none."
    )


class ChatChunkChoice(WireModel):
    """What a chunk adds to one choice."""

    index: int = Field(description="The choice's index in the generate chunk.")
    delta: ChatDelta | CallingDelta = Field(description="What the chunk adds to the message.")
    logprobs: WrittenLogprobs = Field(default=None, description="Log probabilities, if there are any.")
    finish_reason: str | None = Field(
        default=None,
        description="`stop`, `length`, `tool_calls`, or another reason of the engine, in the last chunk.",
    )
    stop_reason: int | str | None = Field(
        default=None,
        description="The stop string or stop token id that ended the generation, if any. A stop string is "
        "reported as soon as it is complete: nothing more of the choice is shown, and its generation can be "
        "aborted.",
    )
    token_ids: list[int] | None = Field(
        default=None, description="The chunk's ids, if `return_token_ids` is true."
    )
    routed_experts: Json = Field(default=None, description=PASSED_ON)
    weight_versions: Json = Field(default=None, description=PASSED_ON)


class ChatCompletionChunk(WireModel):
    """A chunk of a streamed chat completion."""

    id: str = Field(description="The `request_id` of the generation.")
    object: Literal["chat.completion.chunk"] = Field(
        default="chat.completion.chunk", description="Always `chat.completion.chunk`."
    )
    created: int = Field(description="Unix time of the first chunk, in seconds.")
    model: str = Field(description="The name that the request used, or the default model's.")
    choices: list[ChatChunkChoice] = Field(description="One choice, or none in a chunk with `usage` only.")
    usage: Usage | None = Field(default=None, description="The usage of the generate chunk.")
    system_fingerprint: str | None = Field(default=None, description=NULL)
    prompt_token_ids: list[int] | None = Field(default=None, description=CHUNK_PROMPT_IDS)
    prompt_text: str | None = Field(default=None, description=NULL)
    metrics: Json = Field(default=None, description=PASSED_ON)
    kv_transfer_params: Json = Field(default=None, description=PASSED_ON)
    ec_transfer_params: Json = Field(default=None, description=PASSED_ON)
