"""The client's own request, as far as derender reads it (README.md, "Requests")."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, ConfigDict, Field, NonNegativeInt, StringConstraints, model_validator

from .base import Int64, Json, WireModel

__all__ = ["ChatRequest", "ClientRequest", "CompletionRequest", "StopStrings"]

_NULL: Final = {"type": "null"}
_ANNOTATIONS: Final = frozenset({"default", "description", "examples", "title"})
"""JSON Schema keywords that don't constrain a value."""


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


StopString = Annotated[str, StringConstraints(min_length=1)]
StopStrings = Annotated[
    list[StopString], BeforeValidator(_to_list, json_schema_input_type=StopString | list[StopString])
]


def _allow_null(schema: dict[str, Any]) -> None:
    """Allow null for each field of a model's JSON schema."""
    for field in schema["properties"].values():
        form = {name: field.pop(name) for name in field.keys() - _ANNOTATIONS}
        options = form.get("anyOf", [form])
        if form:
            field["anyOf"] = options if _NULL in options else [*options, _NULL]


class ClientRequest(WireModel):
    """The request that the client sent. Fields that derender does not read are accepted and ignored."""

    model_config = ConfigDict(json_schema_extra=_allow_null)

    model: Json = Field(
        default=None, description="Name of the model, used if the derender request has no `model`."
    )
    n: Json = Field(
        default=None, description="Number of choices. A stream ends once as many choices have finished."
    )
    stream_options: Json = Field(
        default=None,
        description="If `include_usage` is true, a stream ends with the usage that follows the last choice.",
    )
    skip_special_tokens: bool = Field(default=True, description="Leave special tokens out of the text.")
    spaces_between_special_tokens: bool = Field(
        default=True,
        description="Accepted. Has no effect with the supported tokenizers, as in vLLM.",
    )
    stop: StopStrings = Field(
        default_factory=list, description="A stop string, or a list of them.", examples=[["\n\n", "END"]]
    )
    stop_token_ids: list[Int64] = Field(default_factory=list, description="Ids that end the generation.")
    include_stop_str_in_output: bool = Field(
        default=False, description="Keep the stop string or stop token in the text."
    )
    ignore_eos: bool = Field(
        default=False, description="The model's end-of-sequence ids did not end the generation."
    )
    min_tokens: NonNegativeInt = Field(
        default=0, description="A stop string counts only if it ends after this many tokens."
    )
    logprob_token_ids: list[Int64] = Field(
        default_factory=list,
        description="Ids whose log probabilities were requested. If there are any, all candidates are kept.",
    )
    return_tokens_as_token_ids: bool = Field(
        default=False, description="Name tokens `token_id:N` in log probabilities."
    )
    return_token_ids: bool = Field(default=False, description="Return `token_ids` and `prompt_token_ids`.")

    @property
    @abstractmethod
    def candidates(self) -> int | None:
        """Maximum number of candidates to keep at each position; None for all."""

    @property
    def choice_count(self) -> int:
        """Number of choices the client asked for."""
        return self.n if isinstance(self.n, int) else 1

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        options = self.stream_options
        return isinstance(options, dict) and options.get("include_usage") is True

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        """Treat null as unset: OpenAI clients send it for what they leave to the server.

        A `tool_choice` of null has a meaning of its own.
        """
        if isinstance(value, dict):
            return {name: item for name, item in value.items() if item is not None or name == "tool_choice"}
        return value


class ChatRequest(ClientRequest):
    """A `/v1/chat/completions` request."""

    messages: Json = Field(
        default=None,
        description="The conversation. Only its tool calls are read, so that further calls have other ids.",
    )
    tools: list[dict[str, Any]] = Field(
        default_factory=list,
        description="The tools that the model may call. Their schemas give the types of arguments that a model "
        "writes without quotes.",
        examples=[
            [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
        ],
    )
    tool_choice: str | dict[str, Any] | None = Field(
        default="auto",
        description="`none`, `auto`, `required`, or the one tool to call. Null is `none`; if it is absent, it "
        "is `auto`.",
        examples=["auto"],
    )
    parallel_tool_calls: bool = Field(
        default=True, description="Whether to keep several tool calls instead of the first only."
    )
    include_reasoning: bool = Field(
        default=True,
        description="Whether to return the reasoning. If not, log probabilities and token ids are left out.",
    )
    chat_template_kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="Arguments of the chat template. `enable_thinking` or `thinking` tells whether the output "
        "begins with reasoning, if the prompt's ids don't.",
    )
    reasoning_effort: Json = Field(
        default=None,
        description="Sets `enable_thinking` of the chat template, unless `chat_template_kwargs` has it: to "
        "false for `none`, to true for any other effort.",
        examples=["low"],
    )

    logprobs: bool = Field(default=False, description="Whether log probabilities were requested.")
    top_logprobs: int = Field(
        default=0, description="Number of candidates to keep for each token; -1 for all.", examples=[5]
    )

    @property
    def template_arguments(self) -> dict[str, Any]:
        """What the request gives to the chat template."""
        arguments = self.chat_template_kwargs
        if self.reasoning_effort is None or "enable_thinking" in arguments:
            return arguments
        return {**arguments, "enable_thinking": self.reasoning_effort != "none"}

    @property
    def candidates(self) -> int | None:
        """Maximum number of candidates to keep at each position; None for all, also if none were requested."""
        if not self.logprobs or self.logprob_token_ids or self.top_logprobs == -1:
            return None
        return max(self.top_logprobs, 0)


class CompletionRequest(ClientRequest):
    """A `/v1/completions` request."""

    prompt: Json = Field(
        default=None,
        description="The prompt, or a list of prompts: texts, or lists of token ids. Used for `echo`.",
    )
    echo: bool = Field(
        default=False,
        description="Begin each choice with the prompt, and its logprobs with those of the prompt's tokens.",
    )
    max_tokens: Json = Field(
        default=None, description="If it is 0, and `echo` is true, the answer is the prompt alone."
    )
    logprobs: int | None = Field(
        default=None,
        description="Number of candidates to keep for each token besides the sampled one; -1 for all.",
    )

    @property
    def candidates(self) -> int | None:
        """Maximum number of candidates to keep at each position, with the sampled token; None for all."""
        if self.logprobs is None or self.logprob_token_ids or self.logprobs == -1:
            return None
        return max(self.logprobs, 0) + 1

    @property
    def only_echoes(self) -> bool:
        """Whether the answer is the prompt alone."""
        return self.echo and type(self.max_tokens) is int and self.max_tokens == 0
