"""Reasoning and tool calls out of a model's output, as a state machine whose state is a value (README.md)."""

from .engine import Parser, end, finish, parse
from .events import CallArguments, CallStart, Content, Event, Reasoning
from .ids import call_id
from .names import REASONING_PARSERS, TOOL_CALL_PARSERS
from .parsers import ANY_TOOL, ParserError, Parsers, forced_tool, load_parsers, offered_tools
from .pieces import read_pieces
from .prompt import start
from .state import ParserState
from .wire import dump_state, load_state

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
