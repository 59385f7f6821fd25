"""The derender requests of complete generations (protocol/README.md, "Requests")."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, NonNegativeInt, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from .base import Json, TokenCount, WireModel
from .generate import GenerateResponse

__all__ = [
    "ChatDerenderRequest",
    "ChatRequest",
    "ClientRequest",
    "CompletionDerenderRequest",
    "CompletionRequest",
]


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


StopString = Annotated[str, StringConstraints(min_length=1)]

_NULL: Final = {"type": "null"}
_ABOUT: Final = frozenset({"default", "description", "examples", "title"})
"""What a schema says besides of which form a value is."""


def _exactly_a_boolean(value: Any) -> Any:
    """Refuse 0, which is equal to false."""
    if not isinstance(value, bool):
        raise PydanticCustomError("boolean", "Input should be false")
    return value


Whole = Annotated[Literal[False], BeforeValidator(_exactly_a_boolean)]
"""`stream`, where there is none."""


def _or_null(schema: dict[str, Any]) -> None:
    """Say of the schema of a model that its fields may be null."""
    for field in schema["properties"].values():
        form = {name: field.pop(name) for name in field.keys() - _ABOUT}
        options = form.get("anyOf", [form])
        if form:
            field["anyOf"] = options if _NULL in options else [*options, _NULL]


class ClientRequest(WireModel):
    """What derender reads of the request that the client sent. All else in it is accepted and ignored."""

    model_config = ConfigDict(json_schema_extra=_or_null)

    model: Json = Field(
        default=None, description="What the client calls the model; counts where the request names none."
    )
    n: Json = Field(
        default=None, description="How many choices were asked for: a stream ends when as many have ended."
    )
    stream_options: Json = Field(
        default=None,
        description="With `include_usage`, a stream ends with the usage that follows the end of its choices.",
    )
    skip_special_tokens: bool = Field(default=True, description="Leave special tokens out of the text.")
    spaces_between_special_tokens: bool = Field(
        default=True,
        description="Accepted. Has no effect with the tokenizers that are served here, as it has none in vLLM.",
    )
    stop: Annotated[
        list[StopString], BeforeValidator(_listed, json_schema_input_type=StopString | list[StopString])
    ] = Field(default_factory=list, description="Stop strings: one, or a list.", examples=[["\n\n", "END"]])
    stop_token_ids: list[int] = Field(default_factory=list, description="Ids that end the generation.")
    include_stop_str_in_output: bool = Field(
        default=False, description="Keep the stop string or stop token in the text."
    )
    ignore_eos: bool = Field(default=False, description="The model's end-of-sequence ids did not stop it.")
    min_tokens: NonNegativeInt = Field(
        default=0, description="A stop string counts only past this many tokens."
    )
    logprob_token_ids: list[int] = Field(
        default_factory=list, description="Ids whose log probabilities were asked for; keeps every candidate."
    )
    return_token_ids: bool = Field(default=False, description="Return `token_ids` and `prompt_token_ids`.")

    @property
    def candidates(self) -> int | None:
        """How many candidates the client gets of each position; None for all."""
        return None

    @property
    def choice_count(self) -> int:
        """How many choices the client asked for."""
        return self.n if isinstance(self.n, int) else 1

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        options = self.stream_options
        return isinstance(options, dict) and options.get("include_usage") is True

    @model_validator(mode="before")
    @classmethod
    def _null_is_unset(cls, value: Any) -> Any:
        """OpenAI clients write null for what they leave to the server."""
        if isinstance(value, dict):
            return {name: item for name, item in value.items() if item is not None}
        return value


class ChatRequest(ClientRequest):
    """A `/v1/chat/completions` request."""

    messages: Json = Field(
        default=None,
        description="The conversation; its tool calls are counted, and nothing else of it is read.",
    )
    tools: list[dict[str, Any]] = Field(
        default_factory=list,
        description="The tools offered to the model. Their schemas give the types of arguments that a model "
        "writes as bare text.",
        examples=[
            [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
        ],
    )
    tool_choice: str | dict[str, Any] | None = Field(
        default=None,
        description="`none`, `auto`, `required`, or the one tool to call; `auto` where tools are offered.",
        examples=["auto"],
    )
    parallel_tool_calls: bool = Field(
        default=True, description="Whether there may be several calls; else the first."
    )
    include_reasoning: bool = Field(
        default=True,
        description="Whether to return the reasoning. If not, log probabilities and ids are left out, too.",
    )
    chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="What the chat template was told. Where the prompt's ids don't say whether reasoning is "
        "open, `enable_thinking` or `thinking` does.",
    )

    logprobs: bool = Field(default=False, description="Whether log probabilities were asked for.")
    top_logprobs: int = Field(
        default=0, description="Candidates to keep for each token; -1 for all.", examples=[5]
    )

    @property
    def candidates(self) -> int | None:
        """How many candidates the client gets of each position; None for all, also where it did not ask."""
        if not self.logprobs or self.logprob_token_ids or self.top_logprobs == -1:
            return None
        return max(self.top_logprobs, 0)


class CompletionRequest(ClientRequest):
    """A `/v1/completions` request."""

    logprobs: int | None = Field(
        default=None, description="Candidates to keep for each token, and the sampled one; -1 for all."
    )

    @property
    def candidates(self) -> int | None:
        """How many candidates, the sampled one among them, the client gets of each position; None for all."""
        if self.logprobs is None or self.logprob_token_ids or self.logprobs == -1:
            return None
        return max(self.logprobs, 0) + 1


class ChatDerenderRequest(WireModel):
    """A complete generation, to become a chat completion."""

    stream: Whole = Field(default=False, description="`false`: a complete generation.")
    model: str | None = Field(default=None, description="Name of the model; the default one if not given.")
    generate_response: GenerateResponse = Field(description="What the generate server returned.")
    prompt_tokens: TokenCount | None = Field(
        default=None, description="Length of the prompt in tokens, for `usage`.", examples=[7]
    )
    prompt_token_ids: list[NonNegativeInt] | None = Field(
        default=None,
        description="Ids of the prompt or its last few: decoding continues the prompt, so that a SentencePiece "
        "model's first word keeps its leading space, and its end says whether reasoning is open.",
    )
    chat_request: ChatRequest | None = Field(
        default=None,
        description="The request that the client sent. Needed where a tool-call or reasoning parser is "
        "configured.",
    )

    @property
    def client(self) -> ChatRequest | None:
        """The request that the client sent."""
        return self.chat_request


class CompletionDerenderRequest(WireModel):
    """Complete generations, one for each prompt, to become one text completion."""

    stream: Whole = Field(default=False, description="`false`: a complete generation.")
    model: str | None = Field(default=None, description="Name of the model; the default one if not given.")
    generate_responses: list[GenerateResponse] = Field(
        description="What the generate server returned, one for each prompt. Must not be empty."
    )
    prompt_tokens: list[TokenCount] | None = Field(
        default=None, description="Length of each prompt in tokens, for `usage`.", examples=[[7]]
    )
    prompt_token_ids: list[list[NonNegativeInt] | None] | None = Field(
        default=None, description="Ids of each prompt, or its last few, or null."
    )
    completion_request: CompletionRequest | None = Field(
        default=None, description="The request that the client sent."
    )

    @property
    def client(self) -> CompletionRequest | None:
        """The request that the client sent."""
        return self.completion_request
