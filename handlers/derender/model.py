"""A served model: its vocabulary and what requests to it may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .errors import ModelNotFound

if TYPE_CHECKING:
    from .limits import Limits
    from .logprobs import LogprobWriter
    from .parsing import Parsers
    from .streaming.wire import StateSeal
    from .vocabulary import Vocabulary

__all__ = ["ServedModel", "ToolCallDeltas"]

ToolCallDeltas = Literal["fragments", "complete"]
"""Fragments of a call's arguments as they come, or each call once it is complete."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A vocabulary under the names that clients use.

    Attributes:
        names: What clients call it; the first is the default.
        vocabulary: Its vocabulary.
        limits: Bounds of a request.
        logprobs: Writes its logprobs.
        parsers: Its parsers, where there are any.
        seal: Makes states of streams valid here only.
        tool_call_deltas: How a stream gives tool calls.
    """

    names: tuple[str, ...]
    vocabulary: Vocabulary
    limits: Limits
    logprobs: LogprobWriter
    parsers: Parsers | None
    seal: StateSeal
    tool_call_deltas: ToolCallDeltas = "fragments"

    def name(self, requested: str | None) -> str:
        """The name to answer with.

        Raises:
            ModelNotFound: The request names another model.
        """
        if not requested:
            return self.names[0]
        if requested not in self.names:
            raise ModelNotFound(
                f"The model `{requested[:100]}` does not exist. Valid names: {', '.join(self.names)}.",
                param="model",
            )
        return requested
