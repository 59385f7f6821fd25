"""Outputs of Qwen3, and what its parsers make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .qwen3 import END, qwen3

if TYPE_CHECKING:
    from derender.telemetry.tally import Outcome

__all__ = ["CALL", "OUTPUTS", "TOOLS", "Output", "encode", "generated"]

TOOLS: Final = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
CALL: Final = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'


class Output(NamedTuple):
    """A choice."""

    text: str
    finish_reason: str
    outcomes: dict[Outcome, int]


OUTPUTS: Final[dict[str, Output]] = {
    "text": Output("one two", "stop", {"text": 1}),
    "reasoning and text": Output("<think>\nwell\n</think>\n\none", "stop", {"text": 1}),
    "calls": Output(f"Well.\n{CALL}", "stop", {"tool_calls": 1}),
    "reasoning alone": Output("<think>\nwell", "stop", {"unanswered": 1}),
    "nothing": Output("", "stop", {"unanswered": 1}),
    "cut": Output("one two", "length", {"cut": 1}),
    "cut in a call": Output(CALL[:-30], "length", {"cut": 1}),
    "a malformed call": Output('<tool_call>\n{"name": add}\n</tool_call>', "stop", {"text": 1, "markup": 1}),
}


def encode(text: str) -> list[int]:
    """Return the token ids of an output, with the id that ends it."""
    return [*qwen3().encode(text), END]


def generated(*token_ids: list[int], finish_reason: str = "stop", **choice: Any) -> dict[str, Any]:
    """Return a generate response of some choices."""
    choices = [
        {"index": index, "token_ids": each, "finish_reason": finish_reason, **choice}
        for index, each in enumerate(token_ids)
    ]
    return {"request_id": "generate-1", "choices": choices}
