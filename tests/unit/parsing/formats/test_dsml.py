"""DSML, the calls of DeepSeek V3.2 and later."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.parsers import Message

from ..support import PARIS, TIME, check, check_both, marked_parsers

DSML: Final = {
    "deepseek_v32": ("function_calls", ""),
    "deepseek_v4": ("tool_calls", ""),
    "deepseek_v41": ("calls", " "),
}


def dsml(name: str, *invokes: str) -> str:
    """A block of calls, `|` for DSML's marker."""
    calls, space = DSML[name]
    text = f"<|{calls}>\n{''.join(invokes)}</|{calls}>"
    return text.replace("|", f"｜DSML｜{space}")


def invoke(*parameters: str, tool: str = "get_weather") -> str:
    return f'<|invoke name="{tool}">\n{"".join(parameters)}</|invoke>\n'


def dsml_parameter(key: str, value: str, string: str | None = None) -> str:
    written = f' string="{string}"' if string else ""
    return f'<|parameter name="{key}"{written}>{value}</|parameter>\n'


@pytest.mark.parametrize("name", sorted(DSML))
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        pytest.param([], "{}", id="none"),
        pytest.param([("city", "Paris", "true")], '{"city": "Paris"}', id="a string"),
        pytest.param(
            [("city", "5", "true"), ("x", "5", "false")], '{"city": "5", "x": 5}', id="strings and JSON"
        ),
        pytest.param(
            [("x", '"a"', "false"), ("y", "oops", "false")], '{"x": "a", "y": "oops"}', id="JSON strings"
        ),
        pytest.param([("where", '{"a": [1]}', "false")], '{"where": {"a": [1]}}', id="JSON objects"),
        pytest.param(
            [("days", "5", None), ("city", "5", None)], '{"days": 5, "city": "5"}', id="by the schema"
        ),
        pytest.param([("city", " a\n", "true")], r'{"city": " a\n"}', id="white space"),
        pytest.param([("city", "a</|parameter>b", "true")], '{"city": "a</|parameter>b"}', id="markup"),
        pytest.param([("city", "A", "true"), ("city", "B", "true")], '{"city": "A"}', id="twice"),
    ],
)
def test_arguments_are_typed_as_declared_or_by_the_schema(
    name: str, parameters: list[tuple[str, str, str | None]], expected: str
) -> None:
    output = dsml(name, invoke(*(dsml_parameter(*each) for each in parameters)))
    expected = expected.replace("|", f"｜DSML｜{DSML[name][1]}")
    check_both(marked_parsers(name, "deepseek_v3"), output, Message(calls=[("get_weather", expected)]))


@pytest.mark.parametrize("name", sorted(DSML))
def test_calls_are_parsed(name: str) -> None:
    paris = invoke(dsml_parameter("city", "Paris", "true"))
    parsers = marked_parsers(name, "deepseek_v3")
    output = f"<think>hm</think>Hi\n\n{dsml(name, paris, invoke(tool='get_time'))}"
    check_both(parsers, output, Message("Hi", "hm", [PARIS, TIME]))
    check_both(parsers, f"<think>hm\n{dsml(name, paris)}", Message("", "hm", [PARIS]))
    check_both(parsers, dsml(name, '<|invoke name="get_time"/>'), Message(calls=[TIME]))
    check(parsers, dsml(name, paris, paris).rpartition("Par")[0], Message(calls=[PARIS]))


def test_a_section_without_calls_is_text() -> None:
    output = dsml("deepseek_v32", "oops\n")
    check(marked_parsers("deepseek_v32"), output, Message(output))


@pytest.mark.parametrize("name", sorted(DSML))
def test_text_before_the_first_call_is_the_messages(name: str) -> None:
    output = f"Hi\n{dsml(name, 'Let me look.', invoke(tool='get_time'))}"
    check_both(marked_parsers(name), output, Message("Hi\nLet me look.", "", [TIME]))


def test_malformed_calls_come_back_as_written() -> None:
    malformed = invoke('<|parameter city="true">a</|parameter>\n')
    output = dsml("deepseek_v32", malformed)
    text = output.partition("calls>")[2].rpartition("\n")[0]
    check(marked_parsers("deepseek_v32"), output, Message(text))


def test_markers_quoted_in_reasoning_are_reasoning() -> None:
    quoted = "use <｜DSML｜function_calls> then"
    check_both(marked_parsers("deepseek_v32", "deepseek_r1"), f"{quoted}</think>Hi", Message("Hi", quoted))


@pytest.mark.parametrize("name", sorted(DSML))
@pytest.mark.parametrize("calls", [calls for calls, _ in DSML.values()])
def test_the_section_of_another_version_is_markup(name: str, calls: str) -> None:
    own, space = DSML[name]
    output = dsml(name, invoke(dsml_parameter("city", "Paris", "true")))
    output = output.replace(f"｜DSML｜{space}{own}", f"｜DSML｜{space}{calls}")
    check(marked_parsers(name), f"Hi\n\n{output}", Message("Hi", "", [PARIS]))
