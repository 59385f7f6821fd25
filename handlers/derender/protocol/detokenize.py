"""The request and the response of `POST /detokenize`."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt

from .base import WireModel

__all__ = ["DetokenizeRequest", "DetokenizeResponse"]


class DetokenizeRequest(WireModel):
    """Token ids to decode."""

    model: str | None = Field(
        default=None, description="Name of the model. The default model is used if there is none."
    )
    tokens: list[NonNegativeInt] = Field(description="The ids of a whole text.", examples=[[9707, 11, 1879, 0]])


class DetokenizeResponse(WireModel):
    """The response of `POST /detokenize`."""

    prompt: str = Field(
        description="The text, with special tokens. A character that is cut off at the end is U+FFFD."
    )
