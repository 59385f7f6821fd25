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

    prompt_tokens: int = Field(description="Length of the prompt, as given in the request.")
    total_tokens: int = Field(description="The sum of both.")
    completion_tokens: int = Field(description="Number of generated ids, with stop tokens.")
    prompt_tokens_details: Json = Field(default=None, description=NULL)
    completion_tokens_details: Json = Field(default=None, description=NULL)
