"""A generation's text → the assistant's message: reasoning, content and tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .errors import BadRequest
from .parsing import (
    ANY_TOOL,
    CallArguments,
    CallStart,
    Content,
    Reasoning,
    call_id,
    finish,
    forced_tool,
    offered_tools,
    parse,
    start,
)
from .protocol.openai import CallingMessage, ChatMessage, FunctionCall, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .choices import DecodedChoice
    from .parsing import Parser, Parsers
    from .protocol.derender import ChatRequest

__all__ = ["check_tool_choice", "finish_reason", "parse_message", "request_parser"]

TOOL_CHOICES: Final = ("none", "auto", "required")
MOST_NAME: Final = 200
"""Longest name of a tool that is forced: the pattern for it grows with it. OpenAI's limit is 64."""


def check_tool_choice(path: str, client: ChatRequest) -> None:
    """Refuse a tool choice that the tools don't allow.

    Args:
        path: Where the client's request is.
        client: The client's request.

    Raises:
        BadRequest: It is none that there is, or forces a tool that is not offered.
    """
    choice, forced = client.tool_choice, forced_tool(client.tool_choice)
    if isinstance(choice, str) and choice not in TOOL_CHOICES:
        raise BadRequest(
            f"tool_choice may be {', '.join(TOOL_CHOICES)}, or a tool", param=f"{path}.tool_choice"
        )
    if isinstance(choice, dict) and not forced:
        raise BadRequest(
            'a tool is chosen with {"type": "function", "function": {"name": ...}}', param=f"{path}.tool_choice"
        )
    offered = offered_tools(client.tools)
    if forced and (not offered or forced not in (ANY_TOOL, *offered)):
        raise BadRequest("tool_choice forces a tool that tools does not have", param=f"{path}.tool_choice")
    if len(forced) > MOST_NAME:
        raise BadRequest(f"the tool's name is longer than {MOST_NAME} characters", param=f"{path}.tool_choice")


def request_parser(parsers: Parsers, client: ChatRequest) -> Parser:
    """The parser of the outputs for a client's request."""
    return parsers.for_request(
        tools=client.tools,
        tool_choice=client.tool_choice,
        parallel_tool_calls=client.parallel_tool_calls,
        chat_template_kwargs=client.chat_template_kwargs,
        whole_calls=True,
    )


def parse_message(
    parsers: Parsers,
    parser: Parser,
    choice: DecodedChoice,
    prompt_token_ids: Sequence[int] | None,
    client: ChatRequest,
    request_id: str,
) -> ChatMessage:
    """Parse a complete generation.

    Args:
        parsers: The model's parsers.
        parser: The request's.
        choice: The generation.
        prompt_token_ids: The prompt, or a suffix of it, if known.
        client: What the client asked.
        request_id: The generate response's, for the ids of calls.
    """
    generated = choice.generated
    events, state = parse(parser, start(parser, prompt_token_ids), choice.pieces)
    events += finish(parser, state, cut=(generated.finish_reason or "stop") != "stop")
    content = "".join([event.text for event in events if isinstance(event, Content)])
    reasoning = "".join([event.text for event in events if isinstance(event, Reasoning)])
    calls = [event for event in events if isinstance(event, CallStart)]
    arguments = [event.text for event in events if isinstance(event, CallArguments)]
    thought = reasoning if reasoning and client.include_reasoning else None
    if not calls:
        return ChatMessage(content=content or None, reasoning=thought)
    earlier = _calls_before(client)
    return CallingMessage(
        content=content or ("" if forced_tool(client.tool_choice) else None),
        reasoning=thought,
        tool_calls=[
            ToolCall(
                id=call_id(parsers.ids, call, request_id=request_id, choice=generated.index, earlier=earlier),
                function=FunctionCall(name=call.name, arguments=text),
            )
            for call, text in zip(calls, arguments, strict=True)
        ],
    )


def finish_reason(engine: str | None, message: ChatMessage, client: ChatRequest) -> str:
    """Why a choice ended, as clients are told (protocol/README.md, "Response")."""
    reason = engine or "stop"
    named = forced_tool(client.tool_choice) not in ("", ANY_TOOL)
    return "tool_calls" if reason == "stop" and isinstance(message, CallingMessage) and not named else reason


def _calls_before(client: ChatRequest) -> int:
    """How many calls are in the conversation."""
    messages = client.messages if isinstance(client.messages, list) else []
    counts = (message.get("tool_calls") for message in messages if isinstance(message, dict))
    return sum(len(calls) for calls in counts if isinstance(calls, list))
