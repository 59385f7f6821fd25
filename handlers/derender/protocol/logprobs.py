"""The logprob entries of generate responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from pydantic_core import CoreSchema, core_schema

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler

__all__ = ["LogprobCandidate", "LogprobEntries", "LogprobEntry"]


class LogprobCandidate(msgspec.Struct, frozen=True, gc=False):
    """A candidate at one position, named by `token_id` or by `token`.

    It is a struct because a response has thousands, and structs are read ten times as fast as pydantic models.
    """

    logprob: float
    token_id: Annotated[int, msgspec.Meta(ge=0)] | None = None
    token: str | None = None
    bytes: list[Annotated[int, msgspec.Meta(ge=0, le=255)]] | None = None


class LogprobEntry(LogprobCandidate, frozen=True, gc=False):
    """The sampled token at one position, and its candidates in the engine's order, the sampled token first."""

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
    "rank": {"description": "Rank among all tokens. Accepted, but not used.", "examples": [1]},
    "bytes": {
        "anyOf": [
            {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}},
            {"type": "null"},
        ],
        "description": "Passed on with a `token` that is not a placeholder; otherwise not used.",
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
                "description": "Candidates in the engine's order: the sampled token, then the others by rank.",
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
    """Tells pydantic that logprob entries are parsed already (`reading`), and describes them."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> CoreSchema:
        return core_schema.list_schema(core_schema.is_instance_schema(LogprobEntry))

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: CoreSchema | GetJsonSchemaHandler) -> dict[str, Any]:
        return _ENTRIES_SCHEMA


LogprobEntries = Annotated[list[LogprobEntry], _EntriesType]
