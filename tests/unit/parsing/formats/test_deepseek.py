"""Calls of DeepSeek V3, R1 and V3.1."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.parsers import Message

from ..support import PARIS, TIME, check, check_both, marked_parsers

V3_CALL: Final = (
    '<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Paris"}\n```<｜tool▁call▁end｜>'
)
V31_CALL: Final = '<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜>'


@pytest.mark.parametrize(("name", "call"), [("deepseek_v3", V3_CALL), ("deepseek_v31", V31_CALL)])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("{0}", Message(calls=[PARIS])),
        ("Hi\n{0}", Message("Hi", "", [PARIS])),
        ("{0}Bye", Message("Bye", "", [PARIS])),
        ("{1}", Message(calls=[PARIS, PARIS])),
        ("<think>\nhm\n</think>\n\nHi\n\n{0}", Message("Hi", "hm", [PARIS])),
        ("<think>hm{0}", Message("", "hm", [PARIS])),
    ],
)
def test_calls_are_parsed(name: str, call: str, output: str, expected: Message) -> None:
    texts = [f"<｜tool▁calls▁begin｜>{call * count}<｜tool▁calls▁end｜>" for count in (1, 2)]
    check_both(marked_parsers(name, "deepseek_v3"), output.format(*texts), expected)


@pytest.mark.parametrize(("name", "call"), [("deepseek_v3", V3_CALL), ("deepseek_v31", V31_CALL)])
def test_missing_ends_are_tolerated(name: str, call: str) -> None:
    begun = f"<｜tool▁calls▁begin｜>{call}"
    parsers = marked_parsers(name, "deepseek_v3")
    check(parsers, begun, Message(calls=[PARIS]))
    check(parsers, begun.removesuffix("<｜tool▁call▁end｜>"), Message(calls=[PARIS]))
    check(parsers, begun.replace("call▁end", "calls▁end") + "Bye", Message("Bye", "", [PARIS]))
    check(parsers, begun + call.partition("Par")[0], Message(calls=[PARIS]))
    cut = call.partition("Par")[0]
    check(parsers, f"<｜tool▁calls▁begin｜>{cut}", Message(cut))


def test_arguments_may_be_missing() -> None:
    call = "<｜tool▁call▁begin｜>get_time<｜tool▁sep｜><｜tool▁call▁end｜>"
    output = f"<｜tool▁calls▁begin｜>{call}<｜tool▁calls▁end｜>"
    check_both(marked_parsers("deepseek_v31"), output, Message(calls=[TIME]))


def test_a_missing_end_between_calls_is_tolerated() -> None:
    time = "<｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{}"
    output = f"<｜tool▁calls▁begin｜>{time}{V31_CALL}<｜tool▁calls▁end｜>"
    check_both(marked_parsers("deepseek_v31"), output, Message(calls=[TIME, PARIS]))


def test_a_section_without_calls_is_text() -> None:
    output = "<｜tool▁calls▁begin｜>function<｜tool▁sep｜>get_time\n```json\n{}\n```<｜tool▁calls▁end｜>"
    check(marked_parsers("deepseek_v3"), output, Message(output))


def test_text_before_the_first_call_is_the_messages() -> None:
    calls = f"{V31_CALL}<｜tool▁calls▁end｜>"
    parsers = marked_parsers("deepseek_v31", "deepseek_v3")
    output = f"Hi\n<｜tool▁calls▁begin｜> Let me look. {calls}"
    check_both(parsers, output, Message("Hi\nLet me look.", "", [PARIS]))
    broken = "<｜tool▁calls▁begin｜>Let me look. <｜tool▁call▁begin｜>oops"
    check(parsers, broken + calls, Message(broken, "", [PARIS]))


@pytest.mark.parametrize(("name", "call"), [("deepseek_v3", V3_CALL), ("deepseek_v31", V31_CALL)])
def test_reasoning_goes_on_after_a_refused_call(name: str, call: str) -> None:
    refused = f"hm <｜tool▁calls▁begin｜>{call.replace('}', ']')}<｜tool▁calls▁end｜> so"
    check_both(marked_parsers(name, "deepseek_r1"), f"{refused}</think>Hi", Message("Hi", refused))


def test_markers_quoted_in_reasoning_are_reasoning() -> None:
    quoted = "use <｜tool▁calls▁begin｜> then"
    check_both(marked_parsers("deepseek_v31", "deepseek_r1"), f"{quoted}</think>Hi", Message("Hi", quoted))
