"""Usage, and what the descriptions of several responses share."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from ..base import Json, WireModel

__all__ = ["CHUNK_PROMPT_IDS", "NULL", "PASSED_ON", "PROMPT_IDS", "PROMPT_LOGPROBS", "Usage"]

NULL: Final = "Always null: part of the API, but not known to a generate server."
PASSED_ON: Final = "As in the generate response."
PROMPT_LOGPROBS: Final = "As in the generate response, with each `decoded_token` filled in."
PROMPT_IDS: Final = "As in the generate response, if `return_token_ids` is true."
CHUNK_PROMPT_IDS: Final = "As in the generate chunk, if `return_token_ids` is true."


class Usage(WireModel):
    """Number of tokens in and out."""

    prompt_tokens: int = Field(
        description="Length of the prompt, as given in the request. If it is not given, as the generate server "
        "counts it, or the number of `prompt_token_ids` in a complete generate response."
    )
    total_tokens: int = Field(description="The sum of both.")
    completion_tokens: int = Field(
        description="Number of generated ids, with stop tokens: as the generate server counts them, but in a "
        "complete response not less than were received."
    )
    prompt_tokens_details: Json = Field(
        default=None, description="As in the generate server's usage, such as `cached_tokens`."
    )
    completion_tokens_details: Json = Field(
        default=None,
        description="As in the generate server's usage. In chat answers of a model with a reasoning parser, "
        "`reasoning_tokens` is the number of tokens of the reasoning.",
    )
