"""The base class of the wire models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

__all__ = ["MAX_TOKEN_COUNT", "Int64", "Json", "TokenCount", "WireModel"]

Json = Any
"""JSON that is passed on unchanged."""

Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
MAX_TOKEN_COUNT: Final = 2**48
TokenCount = Annotated[int, Field(ge=0, le=MAX_TOKEN_COUNT)]
"""A number of tokens. Sums of these fit in 64 bits."""


class WireModel(BaseModel):
    """A JSON object on the wire.

    Types are strict: a number in a string is refused, so that mistakes show where they are made. Unknown fields
    are ignored, because newer servers send more.
    """

    # Validators are built when they are first used: a cold start needs only some of them.
    model_config = ConfigDict(
        strict=True, extra="ignore", frozen=True, defer_build=True, protected_namespaces=()
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Stop at the first wrong item of a list: an error takes hundreds of bytes, an item only a few."""
        schema = handler(source)
        _fail_fast(schema)
        return schema


def _fail_fast(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") == "list":
            schema["fail_fast"] = True
        for part in schema.values():
            _fail_fast(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            _fail_fast(part)
