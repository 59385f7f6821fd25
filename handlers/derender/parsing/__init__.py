"""Reasoning and tool calls out of a model's output, as a state machine whose state is a value (README.md)."""

from .engine.events import CallArguments, CallStart, Content, Event, Reasoning
from .engine.machine import Parser, end, finish, parse
from .engine.pieces import read_pieces
from .engine.prompt import start
from .engine.state import ParserState
from .engine.state_json import dump_state, load_state
from .ids import call_id
from .names import REASONING_PARSERS, TOOL_CALL_PARSERS
from .parsers import ANY_TOOL, ParserError, Parsers, forced_tool, load_parsers, offered_tools

__all__ = [
    "ANY_TOOL",
    "REASONING_PARSERS",
    "TOOL_CALL_PARSERS",
    "CallArguments",
    "CallStart",
    "Content",
    "Event",
    "Parser",
    "ParserError",
    "ParserState",
    "Parsers",
    "Reasoning",
    "call_id",
    "dump_state",
    "end",
    "finish",
    "forced_tool",
    "load_parsers",
    "load_state",
    "offered_tools",
    "parse",
    "read_pieces",
    "start",
]
