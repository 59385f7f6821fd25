"""The OpenAI responses, with the fields that vLLM adds (OpenAI API reference, "Chat", "Completions")."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, WithJsonSchema

from .base import Json, WireModel

__all__ = [
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
    "CompletionChoice",
    "CompletionChunkChoice",
    "CompletionLogprobs",
    "Error",
    "ErrorResponse",
    "FunctionCall",
    "FunctionCallDelta",
    "Model",
    "ModelList",
    "TextCompletion",
    "TextCompletionChunk",
    "ToolCall",
    "Usage",
    "Version",
]


_NULL: Final = "Null: the API has it, a generate server says nothing of it."
_PASSED_ON: Final = "As the generate response says."
_PROMPT_LOGPROBS: Final = "The generate response's, with each `decoded_token` filled in."
_PROMPT_IDS: Final = "The generate response's, if asked for."
_CHUNK_PROMPT_IDS: Final = "The generate chunk's, if asked for."


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

    role: Literal["assistant"] = Field(default="assistant", description="Always `assistant`.")
    content: str | None = Field(default=None, description="The text.")
    refusal: str | None = Field(default=None, description=_NULL)
    annotations: Json = Field(default=None, description=_NULL)
    audio: Json = Field(default=None, description=_NULL)
    function_call: Json = Field(default=None, description=_NULL)
    reasoning: str | None = Field(default=None, description="The text thought before the answer.")


class FunctionCall(WireModel):
    """A tool and its arguments."""

    name: str = Field(description="The tool's name.")
    arguments: str = Field(description="Its arguments: a JSON object, as text.", examples=['{"city": "Paris"}'])


class ToolCall(WireModel):
    """A call of a tool."""

    id: str = Field(description="The same whenever the same generation is derendered.")
    type: Literal["function"] = Field(default="function", description="Always `function`.")
    function: FunctionCall = Field(description="The tool and its arguments.")


class CallingMessage(ChatMessage):
    """The assistant's message, with calls of tools."""

    tool_calls: list[ToolCall] = Field(
        description="The calls, in the model's order. Not there where there are none."
    )


class ChatChoice(WireModel):
    """One answer."""

    index: int = Field(description="Number of the choice, as generated.")
    message: ChatMessage | CallingMessage = Field(description="What the assistant says.")
    logprobs: WrittenChatLogprobs = Field(default=None, description="Log probabilities, if they came.")
    finish_reason: str | None = Field(description="`stop`, `length`, `tool_calls`, or the engine's own.")
    stop_reason: int | str | None = Field(default=None, description="The stop string or stop token id, if any.")
    token_ids: list[int] | None = Field(default=None, description="The generated ids, if asked for.")
    routed_experts: Json = Field(default=None, description=_PASSED_ON)
    weight_versions: Json = Field(default=None, description=_PASSED_ON)


class Usage(WireModel):
    """Tokens in and out."""

    prompt_tokens: int = Field(description="As given in the request.")
    total_tokens: int = Field(description="The sum of both.")
    completion_tokens: int = Field(description="Ids received, the stop token included.")
    prompt_tokens_details: Json = Field(default=None, description=_NULL)
    completion_tokens_details: Json = Field(default=None, description=_NULL)


class ChatCompletion(WireModel):
    """Answer of `POST /v1/chat/completions/derender`."""

    id: str = Field(description="The generate response's `request_id`.")
    object: Literal["chat.completion"] = Field(
        default="chat.completion", description="Always `chat.completion`."
    )
    created: int = Field(description="Unix time in seconds.")
    model: str = Field(description="The name that the request used, or the default one.")
    choices: list[ChatChoice] = Field(description="One for each generated sequence.")
    service_tier: str | None = Field(default=None, description=_NULL)
    system_fingerprint: str | None = Field(default=None, description=_NULL)
    usage: Usage = Field(description="How many tokens went in and came out.")
    prompt_logprobs: Json = Field(default=None, description=_PROMPT_LOGPROBS)
    prompt_token_ids: list[int] | None = Field(default=None, description=_PROMPT_IDS)
    prompt_text: str | None = Field(default=None, description=_NULL)
    kv_transfer_params: Json = Field(default=None, description=_PASSED_ON)
    ec_transfer_params: Json = Field(default=None, description=_PASSED_ON)
    metrics: Json = Field(default=None, description=_PASSED_ON)


class CompletionChoice(WireModel):
    """One continuation."""

    index: int = Field(description="Numbered on across the prompts.")
    text: str = Field(description="The text.")
    logprobs: WrittenCompletionLogprobs = Field(default=None, description="Log probabilities, if they came.")
    finish_reason: str | None = Field(description="`stop`, `length`, or the engine's own.")
    stop_reason: int | str | None = Field(default=None, description="The stop string or stop token id, if any.")
    token_ids: list[int] | None = Field(default=None, description="The generated ids, if asked for.")
    prompt_logprobs: Json = Field(default=None, description=_PROMPT_LOGPROBS)
    prompt_token_ids: list[int] | None = Field(default=None, description=_PROMPT_IDS)
    routed_experts: Json = Field(default=None, description=_PASSED_ON)
    weight_versions: Json = Field(default=None, description=_PASSED_ON)


class TextCompletion(WireModel):
    """Answer of `POST /v1/completions/derender`."""

    id: str = Field(description="The first generate response's `request_id`.")
    object: Literal["text_completion"] = Field(
        default="text_completion", description="Always `text_completion`."
    )
    created: int = Field(description="Unix time in seconds.")
    model: str = Field(description="The name that the request used, or the default one.")
    choices: list[CompletionChoice] = Field(description="One for each generated sequence of each prompt.")
    service_tier: str | None = Field(default=None, description=_NULL)
    system_fingerprint: str | None = Field(default=None, description=_NULL)
    usage: Usage = Field(description="How many tokens went in and came out.")
    kv_transfer_params: Json = Field(default=None, description="Where all generate responses agree.")
    ec_transfer_params: Json = Field(default=None, description="Where all generate responses agree.")
    metrics: Json = Field(default=None, description="For a single generate response.")


class FunctionCallDelta(WireModel):
    """More of a call's arguments."""

    arguments: str = Field(description="To be appended to what came before.")


class CallDelta(WireModel):
    """More of a tool call that has begun."""

    index: int = Field(description="The call's number.")
    function: FunctionCallDelta = Field(description="More of its arguments.")


class CallBegin(ToolCall):
    """A tool call that begins."""

    index: int = Field(description="The call's number, from 0.")


class ChatDelta(WireModel):
    """What a chunk adds to the assistant's message."""

    role: Literal["assistant"] | None = Field(default=None, description="In the choice's first chunk.")
    content: str | None = Field(default=None, description="More of the text.")
    reasoning: str | None = Field(default=None, description="More of the reasoning.")


class CallingDelta(ChatDelta):
    """What a chunk adds to the assistant's message, with calls of tools."""

    tool_calls: list[CallBegin | CallDelta] = Field(
        description="Calls that begin, and more of their arguments. Not there where there are none."
    )


class ChatChunkChoice(WireModel):
    """What a chunk adds to one answer."""

    index: int = Field(description="Number of the choice, as generated.")
    delta: ChatDelta | CallingDelta = Field(description="What is added to the message.")
    logprobs: WrittenChatLogprobs = Field(default=None, description="Log probabilities, if they came.")
    finish_reason: str | None = Field(
        default=None, description="`stop`, `length`, `tool_calls`, or the engine's own, in the last chunk."
    )
    stop_reason: int | str | None = Field(
        default=None,
        description="The stop string or stop token id, if any. A stop string is named as soon as it is "
        "complete: no more of the choice is shown, and its generation may be ended.",
    )
    token_ids: list[int] | None = Field(default=None, description="The chunk's ids, if asked for.")
    routed_experts: Json = Field(default=None, description=_PASSED_ON)
    weight_versions: Json = Field(default=None, description=_PASSED_ON)


class ChatCompletionChunk(WireModel):
    """One chunk of a streamed chat completion."""

    id: str = Field(description="The generation's `request_id`.")
    object: Literal["chat.completion.chunk"] = Field(
        default="chat.completion.chunk", description="Always `chat.completion.chunk`."
    )
    created: int = Field(description="Unix time in seconds of the first chunk.")
    model: str = Field(description="The name that the request used, or the default one.")
    choices: list[ChatChunkChoice] = Field(description="One, or none in a chunk that holds only `usage`.")
    usage: Usage | None = Field(default=None, description="The generate chunk's.")
    system_fingerprint: str | None = Field(default=None, description=_NULL)
    prompt_token_ids: list[int] | None = Field(default=None, description=_CHUNK_PROMPT_IDS)
    prompt_text: str | None = Field(default=None, description=_NULL)
    metrics: Json = Field(default=None, description=_PASSED_ON)
    kv_transfer_params: Json = Field(default=None, description=_PASSED_ON)
    ec_transfer_params: Json = Field(default=None, description=_PASSED_ON)


class CompletionChunkChoice(WireModel):
    """What a chunk adds to one continuation."""

    index: int = Field(description="Number of the choice, as generated.")
    text: str = Field(description="More of the text.")
    logprobs: WrittenCompletionLogprobs = Field(default=None, description="Log probabilities, if they came.")
    finish_reason: str | None = Field(
        default=None, description="`stop`, `length`, or the engine's own, in the last chunk."
    )
    stop_reason: int | str | None = Field(
        default=None,
        description="The stop string or stop token id, if any. A stop string is named as soon as it is "
        "complete: no more of the choice is shown, and its generation may be ended.",
    )
    prompt_token_ids: list[int] | None = Field(default=None, description=_CHUNK_PROMPT_IDS)
    token_ids: list[int] | None = Field(default=None, description="The chunk's ids, if asked for.")
    routed_experts: Json = Field(default=None, description=_PASSED_ON)
    weight_versions: Json = Field(default=None, description=_PASSED_ON)


class TextCompletionChunk(WireModel):
    """One chunk of a streamed text completion."""

    id: str = Field(description="The generation's `request_id`.")
    object: Literal["text_completion"] = Field(
        default="text_completion", description="Always `text_completion`."
    )
    created: int = Field(description="Unix time in seconds of the first chunk.")
    model: str = Field(description="The name that the request used, or the default one.")
    choices: list[CompletionChunkChoice] = Field(description="One, or none in a chunk that holds only `usage`.")
    usage: Usage | None = Field(default=None, description="The generate chunk's.")
    system_fingerprint: str | None = Field(default=None, description=_NULL)
    metrics: Json = Field(default=None, description=_PASSED_ON)
    kv_transfer_params: Json = Field(default=None, description=_PASSED_ON)
    ec_transfer_params: Json = Field(default=None, description=_PASSED_ON)


class Model(WireModel):
    """A name that requests may use."""

    id: str = Field(description="The name.")
    object: Literal["model"] = Field(default="model", description="Always `model`.")
    created: int = Field(description="Unix time in seconds, of this answer.")
    owned_by: Literal["derender"] = Field(default="derender", description="Always `derender`.")
    root: str = Field(description="Name of the vocabulary it stands for.")
    parent: None = Field(default=None, description=_NULL)
    max_model_len: int = Field(description="Longest sequence accepted, in tokens.")


class ModelList(WireModel):
    """Answer of `GET /v1/models`."""

    object: Literal["list"] = Field(default="list", description="Always `list`.")
    data: list[Model] = Field(description="The names.")


class Version(WireModel):
    """Answer of `GET /version`."""

    version: str = Field(description="Version of derender.", examples=["0.1.0"])


class Error(WireModel):
    """What is wrong, and what to change."""

    message: str = Field(description="What is wrong and what to change.")
    type: str = Field(
        description="Kind of error. A field that is missing or of a wrong type is a `Bad Request`, as in vLLM; "
        "what is out of bounds is a `BadRequestError`.",
        examples=["BadRequestError"],
    )
    param: str | None = Field(
        default=None,
        description="The field that is wrong, with the way to it.",
        examples=["generate_response.choices.0.token_ids"],
    )
    code: int = Field(description="The HTTP status.", examples=[400])


class ErrorResponse(WireModel):
    """Every answer that is no success."""

    error: Error = Field(description="The error.")
