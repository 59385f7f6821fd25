"""The client's tools and tool choice."""

from __future__ import annotations

from typing import Any

import pytest

from derender.parsing import (
    ToolChoice,
    ToolChoiceError,
    offered_tools,
    parse_tool_choice,
)

from .support import (
    NAMED,
)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ToolChoice("none")),
        ("none", ToolChoice("none")),
        ("auto", ToolChoice("auto")),
        ("required", ToolChoice("required")),
        (NAMED, ToolChoice("named", "get_weather")),
        ({"function": {"name": "a" * 200}}, ToolChoice("named", "a" * 200)),
    ],
)
def test_a_tool_choice_is_a_mode_or_a_tool(choice: str | dict[str, Any] | None, expected: ToolChoice) -> None:
    assert parse_tool_choice(choice) == expected


@pytest.mark.parametrize(
    "choice",
    [
        "sometimes",
        "",
        {"function": {}},
        {"function": {"name": 1}},
        {"function": {"name": ""}},
        {"function": {"name": "a" * 201}},
        {"function": {"name": "\x01" * 34}},
        {"function": "get_weather"},
        {"type": "function"},
        {},
    ],
)
def test_a_malformed_tool_choice_is_refused(choice: str | dict[str, Any]) -> None:
    with pytest.raises(ToolChoiceError):
        parse_tool_choice(choice)


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ([], {}),
        (
            [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
            {"f": {"type": "object"}},
        ),
        ([{"function": {"name": "f"}}, {"function": {"name": "g"}}], {"f": None, "g": None}),
        ([{"type": "function", "name": "f", "parameters": {}}], {"f": {}}),
        ([{"function": None}, {"function": {}}, {"function": {"name": 1}}, {}], {}),
    ],
)
def test_tools_are_offered_by_name(tools: list[dict[str, Any]], expected: dict[str, object]) -> None:
    assert offered_tools(tools) == expected
