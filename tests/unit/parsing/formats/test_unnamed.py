"""Calls without a name: their arguments tell which tool is called."""

from __future__ import annotations

from typing import Any, Final

import pytest

from derender.parsing.engine.state import Call
from derender.parsing.formats.unnamed import name_by_arguments


def schema(*keys: str, required: object = ()) -> dict[str, Any]:
    return {"type": "object", "properties": {key: {} for key in keys}, "required": required}


TOOLS: Final = {
    "weather": schema("city", "unit", required=["city"]),
    "time": schema("zone", required=["zone"]),
    "date": schema("zone", "format", required=["zone", "format"]),
    "now": schema(required=None),
    "anything": True,
    "open": {"type": "object"},
}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param('{"city": "Paris"}', "weather", id="what it must have"),
        pytest.param('{"city": "Paris", "unit": "C"}', "weather", id="and what it may have"),
        pytest.param('{"zone": "CET"}', "time", id="not all that another must have"),
        pytest.param('{"format": "%d", "zone": "CET"}', "date", id="more than another may have"),
        pytest.param("{}", "now", id="nothing"),
        pytest.param("{'zone': 'CET'}", "time", id="other quotes"),
    ],
)
def test_the_parameters_tell_the_tool(text: str, name: str) -> None:
    calls = name_by_arguments(text, {}, TOOLS)
    assert calls == [Call(name, arguments=text.replace("'", '"'))]


@pytest.mark.parametrize("text", ['{"unit": "C"}', '{"city": 1, "zone": 2}', "[]", '"city"', "{", "oops", ""])
def test_what_no_tool_has_is_no_call(text: str) -> None:
    assert name_by_arguments(text, {}, TOOLS) is None


def test_what_several_tools_have_is_no_call() -> None:
    assert name_by_arguments('{"zone": "CET"}', {}, {"a": schema("zone"), "b": schema("zone")}) is None
