"""What every wire model shares."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Int64", "Json", "TokenCount", "WireModel"]

Json = Any
"""JSON that derender hands on as it came."""

Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
TokenCount = Annotated[int, Field(ge=0, le=2**48)]
"""Sums of these stay within 64 bits."""


class WireModel(BaseModel):
    """A JSON object on the wire.

    Types are exact: a number in a string is refused, so that a mistake is seen where it is made. Fields that
    are not declared are accepted and ignored: newer servers send more.
    """

    # Deferred: a cold start builds the validators of the models it uses, not of all there are.
    model_config = ConfigDict(
        strict=True, extra="ignore", frozen=True, defer_build=True, protected_namespaces=()
    )
