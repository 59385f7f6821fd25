"""Parsers for requests as clients of the Chat Completions API send them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from derender.parsing import offered_tools, parse_tool_choice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from derender.parsing import Parser, Parsers

__all__ = ["request_parser"]


def request_parser(
    parsers: Parsers,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: str | Mapping[str, Any] | None = None,
    whole_calls: bool = False,
    **options: Any,
) -> Parser:
    """Return the parser for a request. `tools` and `tool_choice` are the client's."""
    return parsers.for_request(
        offered_tools(tools), parse_tool_choice(tool_choice), whole_calls=whole_calls, **options
    )
