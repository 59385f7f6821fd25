"""Reasoning and tool calls out of a model's output, as a state machine whose state is a value (README.md)."""

from .engine.events import CallArguments, CallEnd, CallStart, Content, Event, Reasoning, ReasoningTokens
from .engine.machine import finish, parse
from .engine.parser import Parser
from .engine.prompt import Start, read_start
from .engine.state import ParserState
from .engine.state_json import dump_state, load_state
from .ids import EarlierCalls, call_id, make_seed, read_earlier_calls
from .parsers import ParserError, Parsers, load_parsers
from .registry import REASONING_PARSERS, TOOL_CALL_PARSERS
from .tool_choice import AUTO, ToolChoice, ToolChoiceError, offered_tools, parse_tool_choice

__all__ = [
    "AUTO",
    "REASONING_PARSERS",
    "TOOL_CALL_PARSERS",
    "CallArguments",
    "CallEnd",
    "CallStart",
    "Content",
    "EarlierCalls",
    "Event",
    "Parser",
    "ParserError",
    "ParserState",
    "Parsers",
    "Reasoning",
    "ReasoningTokens",
    "Start",
    "ToolChoice",
    "ToolChoiceError",
    "call_id",
    "dump_state",
    "finish",
    "load_parsers",
    "load_state",
    "make_seed",
    "offered_tools",
    "parse",
    "parse_tool_choice",
    "read_earlier_calls",
    "read_start",
]
