"""Responses and stream events of generate servers: `/inference/v1/generate` (README.md, "Generate
response")."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal
from uuid import uuid4

from pydantic import AfterValidator, Field, NonNegativeInt, WithJsonSchema
from pydantic_core import PydanticCustomError

from .base import Int64, Json, TokenCount, WireModel
from .logprobs import LogprobEntries

__all__ = [
    "ChunkChoice",
    "GenerateChoice",
    "GenerateChunk",
    "GenerateLogprobs",
    "GenerateResponse",
    "GenerateUsage",
    "PromptLogprobs",
]

MAX_REQUEST_ID: Final = 256
"""Maximum length of a streamed generation's id, which is part of the state."""


class GenerateLogprobs(WireModel):
    """Log probabilities of one choice."""

    content: LogprobEntries | None = Field(default=None, description="One entry for each generated token.")


class GenerateChoice(WireModel):
    """One generated sequence."""

    index: Int64 = Field(description="The choice's index.", examples=[0])
    token_ids: list[NonNegativeInt] | None = Field(
        default=None,
        description="The generated ids, with the stop token. Must not be empty.",
        examples=[[9707, 11, 1879, 0, 151645]],
    )
    finish_reason: str | None = Field(
        default="stop", description="Why the engine ended the generation.", examples=["stop", "length"]
    )
    stop_reason: Int64 | str | None = Field(
        default=None,
        description="The stop string or stop token id that ended the generation. Null for `length` and "
        "`abort`. Servers with a tokenizer send null for the primary end-of-sequence id, too.",
    )
    logprobs: GenerateLogprobs | None = Field(default=None, description="Log probabilities, if requested.")
    routed_experts: Json = Field(default=None, description="Passed on.")
    weight_versions: Json = Field(default=None, description="Passed on.")


_ID: Final = "[0-9]{1,10}"
"""A token id as the key of a JSON object."""


def _check_position(position: dict[str, Json]) -> dict[str, Json]:
    """Stop at the first wrong candidate, as in lists: each error takes hundreds of bytes."""
    for token_id, value in position.items():
        if not re.fullmatch(_ID, token_id):
            raise PydanticCustomError("token_id", "Keys should be token ids")
        if not isinstance(value, dict):
            raise PydanticCustomError("candidate", "Values should be valid dictionaries")
    return position


PromptLogprobs = (
    Annotated[
        dict[str, Json],
        AfterValidator(_check_position),
        WithJsonSchema(
            {
                "type": "object",
                "patternProperties": {f"^{_ID}$": {"type": "object", "additionalProperties": True}},
                "additionalProperties": False,
            }
        ),
    ]
    | None
)
"""For one prompt token: null, or token id → `{logprob, rank, decoded_token}`."""


class GenerateUsage(WireModel):
    """Number of tokens in and out, as the generate server counts them."""

    prompt_tokens: TokenCount = Field(default=0, description="Length of the prompt.")
    completion_tokens: TokenCount | None = Field(default=0, description="Number of ids generated so far.")
    total_tokens: TokenCount = Field(default=0, description="The sum of both.")
    prompt_tokens_details: Json = Field(default=None, description="Passed on.")
    completion_tokens_details: Json = Field(default=None, description="Passed on.")


class GenerateResponse(WireModel):
    """A complete response of a token-in, token-out generate server."""

    request_id: str = Field(
        default_factory=lambda: uuid4().hex,
        description="Becomes the `id` of the OpenAI response.",
        examples=["cmpl-7f3a"],
    )
    choices: list[GenerateChoice] = Field(description="The generated sequences.")
    usage: GenerateUsage | None = Field(
        default=None, description="The generate server's own count. Its details are passed on."
    )
    prompt_token_ids: list[NonNegativeInt] | None = Field(
        default=None, description="Ids of the prompt, used if the derender request has none."
    )
    prompt_logprobs: list[PromptLogprobs] | None = Field(
        default=None,
        description="For each prompt token: null, or token id → `{logprob, rank, decoded_token}`. A null "
        "`decoded_token` is filled in.",
    )
    kv_transfer_params: Json = Field(default=None, description="Passed on.")
    ec_transfer_params: Json = Field(default=None, description="Passed on.")
    metrics: Json = Field(default=None, description="Passed on.")
    output_mode: Literal["tokens"] = Field(
        default="tokens", description="Only `tokens` is accepted; other modes are decoded already."
    )


class ChunkChoice(GenerateChoice):
    """What a chunk adds to one sequence."""

    token_ids: list[NonNegativeInt] | None = Field(
        default=None, description="The ids generated since the last chunk.", examples=[[9707]]
    )
    finish_reason: str | None = Field(
        default=None,
        description="Why the engine ended the generation, in the last chunk.",
        examples=["stop", "length"],
    )


class GenerateChunk(WireModel):
    """One event of a token-in, token-out generate server's stream."""

    request_id: str | None = Field(
        default=None,
        max_length=MAX_REQUEST_ID,
        description="Becomes the `id` of the OpenAI chunks. It is the same in all chunks of a generation.",
        examples=["cmpl-7f3a"],
    )
    choices: list[ChunkChoice] = Field(description="At most one choice; none in a chunk with `usage` only.")
    usage: GenerateUsage | None = Field(default=None, description="Passed on.")
    prompt_token_ids: list[NonNegativeInt] | None = Field(
        default=None, description="Ids of the prompt, used in the first chunk if the derender request has none."
    )
    kv_transfer_params: Json = Field(default=None, description="Passed on.")
    ec_transfer_params: Json = Field(default=None, description="Passed on.")
    metrics: Json = Field(default=None, description="Passed on.")
    output_mode: Literal["tokens"] = Field(
        default="tokens", description="Only `tokens` is accepted; other modes are decoded already."
    )
