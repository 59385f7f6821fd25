"""The error envelope of the OpenAI API."""

from __future__ import annotations

from pydantic import Field

from ..base import WireModel

__all__ = ["Error", "ErrorResponse"]


class Error(WireModel):
    """An error."""

    message: str = Field(description="What is wrong, and what to change.")
    type: str = Field(
        description="Kind of error. `Bad Request`, as in vLLM, means that a field is missing or has the wrong "
        "type; `BadRequestError` means that a value is out of bounds or makes no sense.",
        examples=["BadRequestError"],
    )
    param: str | None = Field(
        default=None,
        description="Path of the field that is wrong.",
        examples=["generate_response.choices.0.token_ids"],
    )
    code: int = Field(description="The HTTP status.", examples=[400])


class ErrorResponse(WireModel):
    """The response to every request that fails."""

    error: Error = Field(description="The error.")
