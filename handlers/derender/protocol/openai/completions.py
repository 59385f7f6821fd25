"""Text completions, complete and streamed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from ..base import Json, WireModel
from .usage import CHUNK_PROMPT_IDS, NULL, PASSED_ON, PROMPT_IDS, PROMPT_LOGPROBS, Usage

__all__ = [
    "CompletionChoice",
    "CompletionChunkChoice",
    "CompletionLogprobs",
    "TextCompletion",
    "TextCompletionChunk",
]

# A response has thousands of candidates. They are written as lists right away, not as models.
WrittenLogprobs = Annotated[
    Any, WithJsonSchema({"anyOf": [{"$ref": "#/components/schemas/CompletionLogprobs"}, {"type": "null"}]})
]


class CompletionLogprobs(WireModel):
    """Log probabilities of a text completion's choice, as parallel lists."""

    tokens: list[str] = Field(default_factory=list, description="The texts of the sampled tokens.")
    token_logprobs: list[float | None] = Field(
        default_factory=list, description="The log probabilities of the sampled tokens."
    )
    top_logprobs: list[dict[str, float] | None] = Field(
        default_factory=list,
        description="Candidates: text → log probability. Null for positions without candidates.",
    )
    text_offset: list[int] = Field(
        default_factory=list, description="Where each token begins, in characters of the tokens' texts."
    )


class CompletionChoice(WireModel):
    """One choice of a text completion."""

    index: int = Field(description="The choice's number, which continues across the prompts.")
    text: str = Field(description="The text.")
    logprobs: WrittenLogprobs = Field(default=None, description="Log probabilities, if there are any.")
    finish_reason: str | None = Field(description="`stop`, `length`, or another reason of the engine.")
    stop_reason: int | str | None = Field(
        default=None, description="The stop string or stop token id that ended the generation, if any."
    )
    token_ids: list[int] | None = Field(
        default=None, description="The generated ids, if `return_token_ids` is true."
    )
    prompt_logprobs: Json = Field(default=None, description=PROMPT_LOGPROBS)
    prompt_token_ids: list[int] | None = Field(default=None, description=PROMPT_IDS)
    routed_experts: Json = Field(default=None, description=PASSED_ON)
    weight_versions: Json = Field(default=None, description=PASSED_ON)


class TextCompletion(WireModel):
    """The response of `POST /v1/completions/derender` to complete generations."""

    id: str = Field(description="The `request_id` of the first generate response.")
    object: Literal["text_completion"] = Field(
        default="text_completion", description="Always `text_completion`."
    )
    created: int = Field(description="Unix time in seconds.")
    model: str = Field(description="The name that the request used, or the default model's.")
    choices: list[CompletionChoice] = Field(
        description="One choice for each generated sequence of each prompt."
    )
    service_tier: str | None = Field(default=None, description=NULL)
    system_fingerprint: str | None = Field(default=None, description=NULL)
    usage: Usage = Field(description="How many tokens went in and came out.")
    kv_transfer_params: Json = Field(default=None, description="The value that all generate responses share.")
    ec_transfer_params: Json = Field(default=None, description="The value that all generate responses share.")
    metrics: Json = Field(default=None, description="As in the generate response, if there is only one.")


class CompletionChunkChoice(WireModel):
    """What a chunk adds to one choice."""

    index: int = Field(description="The choice's index in the generate chunk.")
    text: str = Field(description="More of the text.")
    logprobs: WrittenLogprobs = Field(default=None, description="Log probabilities, if there are any.")
    finish_reason: str | None = Field(
        default=None,
        description="`stop`, `length`, or another reason of the engine, in the last chunk.",
    )
    stop_reason: int | str | None = Field(
        default=None,
        description="The stop string or stop token id that ended the generation, if any. A stop string is "
        "reported as soon as it is complete: nothing more of the choice is shown, and its generation can be "
        "aborted.",
    )
    prompt_token_ids: list[int] | None = Field(default=None, description=CHUNK_PROMPT_IDS)
    token_ids: list[int] | None = Field(
        default=None, description="The chunk's ids, if `return_token_ids` is true."
    )
    routed_experts: Json = Field(default=None, description=PASSED_ON)
    weight_versions: Json = Field(default=None, description=PASSED_ON)


class TextCompletionChunk(WireModel):
    """A chunk of a streamed text completion."""

    id: str = Field(description="The `request_id` of the generation.")
    object: Literal["text_completion"] = Field(
        default="text_completion", description="Always `text_completion`."
    )
    created: int = Field(description="Unix time of the first chunk, in seconds.")
    model: str = Field(description="The name that the request used, or the default model's.")
    choices: list[CompletionChunkChoice] = Field(
        description="One choice, or none in a chunk with `usage` only."
    )
    usage: Usage | None = Field(default=None, description="The usage of the generate chunk.")
    system_fingerprint: str | None = Field(default=None, description=NULL)
    metrics: Json = Field(default=None, description=PASSED_ON)
    kv_transfer_params: Json = Field(default=None, description=PASSED_ON)
    ec_transfer_params: Json = Field(default=None, description=PASSED_ON)
