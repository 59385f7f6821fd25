"""Parsers for requests as clients of the Chat Completions API send them, and what their events add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from derender.parsing import (
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Reasoning,
    ReasoningTokens,
    offered_tools,
    parse_tool_choice,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from derender.parsing import Event, Parser, Parsers

__all__ = ["Message", "fold", "request_parser"]


def request_parser(
    parsers: Parsers,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: str | Mapping[str, Any] | None = "auto",
    whole_calls: bool = False,
    **options: Any,
) -> Parser:
    """Return the parser for a request. `tools` and `tool_choice` are the client's."""
    return parsers.for_request(
        offered_tools(tools), parse_tool_choice(tool_choice), whole_calls=whole_calls, **options
    )


class Message(NamedTuple):
    """What the events of an output add up to."""

    content: str = ""
    reasoning: str = ""
    calls: Sequence[tuple[str, str]] = []
    """Names and arguments."""


def fold(events: Iterable[Event]) -> Message:
    """Add events up. Calls begin in order, and no text is empty."""
    content = reasoning = ""
    calls: list[tuple[str, str]] = []
    for event in events:
        match event:
            case Content(text):
                content += text
            case Reasoning(text):
                reasoning += text
            case ReasoningTokens():
                continue
            case CallStart(index, text):
                assert index == len(calls)
                calls.append((text, ""))
            case CallArguments(index, text):
                assert index == len(calls) - 1, "arguments of a call that has ended"
                name, before = calls[index]
                calls[index] = (name, before + text)
            case CallEnd(index):
                assert index == len(calls) - 1, "the end of a call that is not open"
                continue
        assert text
    return Message(content, reasoning, calls)
