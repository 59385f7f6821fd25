"""The generate response: what `/inference/v1/generate` returns (protocol/README.md, "Generate response")."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from uuid import uuid4

import msgspec
from pydantic import Field, GetJsonSchemaHandler, NonNegativeInt, StringConstraints
from pydantic_core import CoreSchema, core_schema

from .base import Int64, Json, TokenCount, WireModel

__all__ = [
    "ChunkChoice",
    "ChunkUsage",
    "GenerateChoice",
    "GenerateChunk",
    "GenerateLogprobs",
    "GenerateResponse",
    "LogprobCandidate",
    "LogprobEntries",
    "LogprobEntry",
]


MAX_REQUEST_ID: Final = 256
"""Longest id of a generation that is streamed: it travels with the state."""


class LogprobCandidate(msgspec.Struct, frozen=True, gc=False):
    """A candidate at one position, named by `token_id` or by `token`.

    A struct, not a pydantic model: an answer holds thousands, and these are read ten times as fast.
    """

    logprob: float
    token_id: Annotated[int, msgspec.Meta(ge=0)] | None = None
    token: str | None = None
    bytes: list[Annotated[int, msgspec.Meta(ge=0, le=255)]] | None = None


class LogprobEntry(LogprobCandidate, frozen=True, gc=False):
    """The sampled token at one position, and its candidates in the engine's order, sampled token first."""

    top_logprobs: list[LogprobCandidate] | None = None


_CANDIDATE_SCHEMA: Final[dict[str, Any]] = {
    "token_id": {
        "anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}],
        "description": "The token's id (vLLM 0.30 and later).",
    },
    "token": {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": "`token_id:N` (vLLM 0.24 to 0.29). Anything else is passed on unchanged.",
    },
    "logprob": {"type": "number", "description": "Natural logarithm of the probability."},
    "rank": {"description": "Rank among all tokens; accepted, not used.", "examples": [1]},
    "bytes": {
        "anyOf": [
            {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}},
            {"type": "null"},
        ],
        "description": "Passed on with a `token` that is no placeholder, otherwise not used.",
    },
}
_ENTRIES_SCHEMA: Final[dict[str, Any]] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["logprob"],
        "properties": {
            **_CANDIDATE_SCHEMA,
            "top_logprobs": {
                "anyOf": [
                    {
                        "type": "array",
                        "items": {"type": "object", "required": ["logprob"], "properties": _CANDIDATE_SCHEMA},
                    },
                    {"type": "null"},
                ],
                "description": "Candidates in the engine's order: the sampled token, then by rank.",
            },
        },
    },
    "examples": [
        [
            {
                "token_id": 9707,
                "logprob": -0.25,
                "rank": 1,
                "top_logprobs": [
                    {"token_id": 9707, "logprob": -0.25, "rank": 1},
                    {"token_id": 13048, "logprob": -1.5, "rank": 2},
                ],
            },
            {"token": "token_id:11", "logprob": -0.01, "bytes": None, "top_logprobs": []},
        ]
    ],
}


class _EntriesType:
    """Tells pydantic that logprob entries are parsed before it looks (`reading`), and what they are."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> CoreSchema:
        return core_schema.list_schema(core_schema.is_instance_schema(LogprobEntry))

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: CoreSchema | GetJsonSchemaHandler) -> dict[str, Any]:
        return _ENTRIES_SCHEMA


LogprobEntries = Annotated[list[LogprobEntry], _EntriesType]


class GenerateLogprobs(WireModel):
    """Log probabilities of one choice."""

    content: LogprobEntries | None = Field(default=None, description="One entry for each generated token.")


class GenerateChoice(WireModel):
    """One generated sequence."""

    index: Int64 = Field(description="Number of the choice.", examples=[0])
    token_ids: list[NonNegativeInt] | None = Field(
        default=None,
        description="The generated ids, the stop token included. Must not be empty.",
        examples=[[9707, 11, 1879, 0, 151645]],
    )
    finish_reason: str | None = Field(
        default="stop", description="The engine's reason to end.", examples=["stop", "length"]
    )
    stop_reason: Int64 | str | None = Field(
        default=None,
        description="The stop string or stop token id that ended the generation; null for the primary "
        "end-of-sequence id, for `length` and for `abort`.",
    )
    logprobs: GenerateLogprobs | None = Field(default=None, description="Log probabilities, if asked for.")
    routed_experts: Json = Field(default=None, description="Passed on.")
    weight_versions: Json = Field(default=None, description="Passed on.")


_TokenId = Annotated[str, StringConstraints(pattern="^[0-9]{1,10}$")]
PromptLogprobs = (
    Annotated[dict[_TokenId, dict[str, Json]], Field(json_schema_extra={"additionalProperties": False})] | None
)
"""For one prompt token null, or token id → `{logprob, rank, decoded_token}`."""


class GenerateResponse(WireModel):
    """A complete answer of a token-in, token-out generate server."""

    request_id: str = Field(
        default_factory=lambda: uuid4().hex,
        description="Becomes the `id` of the OpenAI response.",
        examples=["cmpl-7f3a"],
    )
    choices: list[GenerateChoice] = Field(description="The generated sequences.")
    prompt_token_ids: list[NonNegativeInt] | None = Field(
        default=None, description="Ids of the prompt; used where the derender request gives none."
    )
    prompt_logprobs: list[PromptLogprobs] | None = Field(
        default=None,
        description="For each prompt position null or token id → `{logprob, rank, decoded_token}`. A "
        "`decoded_token` that is null is filled in.",
    )
    kv_transfer_params: Json = Field(default=None, description="Passed on.")
    ec_transfer_params: Json = Field(default=None, description="Passed on.")
    metrics: Json = Field(default=None, description="Passed on.")
    output_mode: Literal["tokens"] = Field(
        default="tokens", description="Only `tokens`: other modes are decoded already."
    )


class ChunkChoice(GenerateChoice):
    """What a chunk adds to one sequence."""

    token_ids: list[NonNegativeInt] | None = Field(
        default=None, description="The ids generated since the last chunk.", examples=[[9707]]
    )
    finish_reason: str | None = Field(
        default=None, description="The engine's reason to end, in the last chunk.", examples=["stop", "length"]
    )


class ChunkUsage(WireModel):
    """How many tokens went in and came out, as the generate server counts."""

    prompt_tokens: TokenCount = Field(default=0, description="Length of the prompt.")
    completion_tokens: TokenCount | None = Field(default=0, description="Ids generated so far.")
    total_tokens: TokenCount = Field(default=0, description="The sum of both.")
    prompt_tokens_details: Json = Field(default=None, description="Passed on.")
    completion_tokens_details: Json = Field(default=None, description="Passed on.")


class GenerateChunk(WireModel):
    """One event of a token-in, token-out generate server's stream."""

    request_id: str | None = Field(
        default=None,
        max_length=MAX_REQUEST_ID,
        description="Becomes the `id` of the OpenAI chunks. The same in all chunks of a generation.",
        examples=["cmpl-7f3a"],
    )
    choices: list[ChunkChoice] = Field(
        description="At most one: what is added to it. None in a chunk that holds only `usage`."
    )
    usage: ChunkUsage | None = Field(default=None, description="Passed on.")
    prompt_token_ids: list[NonNegativeInt] | None = Field(
        default=None, description="Ids of the prompt; used in the first chunk where the request gives none."
    )
    kv_transfer_params: Json = Field(default=None, description="Passed on.")
    ec_transfer_params: Json = Field(default=None, description="Passed on.")
    metrics: Json = Field(default=None, description="Passed on.")
    output_mode: Literal["tokens"] = Field(
        default="tokens", description="Only `tokens`: other modes are decoded already."
    )
