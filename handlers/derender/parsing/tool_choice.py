"""The client's `tools` and `tool_choice`, parsed once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["AUTO", "NONE", "ToolChoice", "ToolChoiceError", "offered_tools", "parse_tool_choice"]

MAX_NAME: Final = 200
"""Maximum length of a forced tool's name as JSON: the pattern that finds its call grows with it."""


class ToolChoiceError(ValueError):
    """A `tool_choice` that can't be followed. The message says what to send."""


class ToolChoice(Struct, frozen=True):
    """Which tools the model may or must call.

    Attributes:
        mode: `none`, `auto`, `required` (any tool must be called) or `named` (this one must be called).
        name: The tool that must be called, if the mode is `named`.
    """

    mode: Literal["none", "auto", "required", "named"]
    name: str = ""

    @property
    def is_forced(self) -> bool:
        """Whether a tool must be called."""
        return self.mode in ("required", "named")


AUTO: Final = ToolChoice("auto")
NONE: Final = ToolChoice("none")


def parse_tool_choice(choice: str | Mapping[str, Any] | None) -> ToolChoice:
    """Parse a `tool_choice` of the Chat Completions API. Null is `none`, as in vLLM.

    Raises:
        ToolChoiceError: It is malformed.
    """
    match choice:
        case None:
            return NONE
        case "none" | "auto" | "required":
            return ToolChoice(choice)
        case {"function": {"name": str(name)}} if name:
            if len(json.dumps(name, ensure_ascii=False)) > MAX_NAME + len('""'):
                raise ToolChoiceError(f"the tool's name is longer than {MAX_NAME} characters as JSON")
            return ToolChoice("named", name)
        case str():
            raise ToolChoiceError("tool_choice must be none, auto, required, or a tool")
    raise ToolChoiceError('choose a tool with {"type": "function", "function": {"name": ...}}')


def offered_tools(tools: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Return the JSON schema of each tool's parameters by the tool's name.

    Args:
        tools: The `tools` of the client's request. Entries without a name are ignored.
    """
    functions = [tool.get("function", tool) for tool in tools]
    return {
        function["name"]: function.get("parameters")
        for function in functions
        if isinstance(function, dict) and isinstance(function.get("name"), str)
    }
