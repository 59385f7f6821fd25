"""A generation's text → the assistant's message: reasoning, content and tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from derender.errors import BadRequest
from derender.parsing import (
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
from derender.protocol.derender import ChatRequest
from derender.protocol.limits import check_client_request
from derender.protocol.openai import CallingMessage, ChatMessage, FunctionCall, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.parsing import Parser, Parsers

    from .choices import DecodedChoice

__all__ = ["calls_before", "check_chat_request", "finish_reason", "parse_message", "request_parser"]

TOOL_CHOICES: Final = ("none", "auto", "required")
MOST_NAME: Final = 200
"""Longest name of a tool that is forced: the pattern for it grows with it. OpenAI's limit is 64."""


def check_chat_request(path: str, client: ChatRequest | None, parsers: Parsers | None) -> ChatRequest:
    """The client's request, or what stands for one that is not there.

    Args:
        path: Where it is.
        client: The client's request.
        parsers: The model's parsers.

    Raises:
        BadRequest: It is needed, or has too many stop strings, or a tool choice that the tools don't allow.
    """
    if parsers and client is None:
        raise BadRequest(
            f"{path} is required where a tool-call or reasoning parser is configured: how an output is parsed "
            "depends on it",
            param=path,
        )
    client = client or ChatRequest()
    check_client_request(path, client)
    _check_tool_choice(path, client)
    return client


def _check_tool_choice(path: str, client: ChatRequest) -> None:
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


def request_parser(parsers: Parsers, client: ChatRequest, *, whole_calls: bool = True) -> Parser:
    """The parser of the outputs for a client's request.

    Args:
        parsers: The model's parsers.
        client: What the client asked.
        whole_calls: Whether a call is given once it is complete; else its arguments are given as they come.
    """
    return parsers.for_request(
        tools=client.tools,
        tool_choice=client.tool_choice,
        parallel_tool_calls=client.parallel_tool_calls,
        chat_template_kwargs=client.chat_template_kwargs,
        whole_calls=whole_calls,
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
    events += finish(parser, state, cut=(choice.finish_reason or "stop") != "stop")
    content = "".join([event.text for event in events if isinstance(event, Content)])
    reasoning = "".join([event.text for event in events if isinstance(event, Reasoning)])
    calls = [event for event in events if isinstance(event, CallStart)]
    arguments = [event.text for event in events if isinstance(event, CallArguments)]
    thought = reasoning if reasoning and client.include_reasoning else None
    if not calls:
        return ChatMessage(content=content or None, reasoning=thought)
    earlier = calls_before(client)
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


def finish_reason(engine: str | None, client: ChatRequest, *, calls: bool) -> str:
    """Why a choice ended, as clients are told (protocol/README.md, "Response").

    Args:
        engine: The engine's reason.
        client: What the client asked.
        calls: Whether there are calls in the choice.
    """
    reason = engine or "stop"
    named = forced_tool(client.tool_choice) not in ("", ANY_TOOL)
    return "tool_calls" if reason == "stop" and calls and not named else reason


def calls_before(client: ChatRequest) -> int:
    """How many calls are in the conversation."""
    messages = client.messages if isinstance(client.messages, list) else []
    counts = (message.get("tool_calls") for message in messages if isinstance(message, dict))
    return sum(len(calls) for calls in counts if isinstance(calls, list))
