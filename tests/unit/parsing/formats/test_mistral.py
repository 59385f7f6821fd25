"""Calls and reasoning of Mistral's models."""

from __future__ import annotations

from typing import Final

import pytest

from derender.parsing import CallStart
from derender.parsing.engine.emitter import MAX_IDS
from tests.support.engine import parse_chunks
from tests.support.parsers import Message, request_parser

from ..support import PARIS, TIME, TOOLS, check, check_both, marked_parsers, to_pieces

MISTRAL_LIST: Final = '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}]'
MISTRAL: Final = '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}'


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(MISTRAL_LIST, Message(calls=[PARIS]), id="a list"),
        pytest.param(
            MISTRAL_LIST[:-1] + ', {"name": "get_time"}]', Message(calls=[PARIS, TIME]), id="a list of two"
        ),
        pytest.param(MISTRAL, Message(calls=[PARIS]), id="a call"),
        pytest.param(f"Hi{MISTRAL}[TOOL_CALLS]get_time[ARGS]{{}}", Message("Hi", "", [PARIS, TIME]), id="two"),
        pytest.param(MISTRAL.replace("[ARGS]", ""), Message(calls=[PARIS]), id="without a marker of arguments"),
        pytest.param(MISTRAL.replace("[ARGS]", "[CALL_ID]abc123DEF[ARGS]"), Message(calls=[PARIS]), id="an id"),
        pytest.param(f"[THINK]hm[/THINK]{MISTRAL}", Message("", "hm", [PARIS]), id="after reasoning"),
        pytest.param(
            f"[THINK]{MISTRAL}[/THINK]Hi", Message("Hi", MISTRAL, []), id="markers quoted in reasoning"
        ),
        pytest.param("<think>\nhm\n</think>\nHi", Message("Hi", "hm"), id="reasoning in text"),
        pytest.param("[THINK]hm", Message(reasoning="hm"), id="reasoning cut"),
        pytest.param("Hi", Message("Hi"), id="text"),
    ],
)
def test_calls_and_reasoning_are_parsed(output: str, expected: Message) -> None:
    check_both(marked_parsers("mistral", "mistral", frozenset({"<think>", "</think>"})), output, expected)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (MISTRAL[:-4], Message(MISTRAL[:-4])),
        (MISTRAL_LIST[:-5], Message(MISTRAL_LIST[:-5])),
        (MISTRAL_LIST[:-1] + ', {"na', Message(calls=[PARIS])),
        (MISTRAL + MISTRAL[:-4], Message(calls=[PARIS])),
    ],
)
def test_truncated_calls_come_back_as_text_unless_another_was_complete(output: str, expected: Message) -> None:
    check(marked_parsers("mistral"), output, expected, cut=True)


def test_calls_carry_the_id_that_the_model_wrote() -> None:
    parser = request_parser(marked_parsers("mistral"), tools=TOOLS, whole_calls=True)
    output = "[TOOL_CALLS]get_time[CALL_ID]abc123DEF[ARGS]{}[TOOL_CALLS]get_time[ARGS]{}"
    events = parse_chunks(parser, [to_pieces(parser, output)])
    assert [event.written_id for event in events if isinstance(event, CallStart)] == ["abc123DEF", ""]


def test_of_two_calls_with_one_id_the_first_keeps_it() -> None:
    call = "[TOOL_CALLS]get_time[CALL_ID]%s[ARGS]{}"
    for whole_calls in (True, False):
        parser = request_parser(marked_parsers("mistral"), tools=TOOLS, whole_calls=whole_calls)
        chunks = [to_pieces(parser, call % each) for each in ("aaaaaaaaa", "bbbbbbbbb", "aaaaaaaaa")]
        written = [each.written_id for each in parse_chunks(parser, chunks) if isinstance(each, CallStart)]
        assert written == ["aaaaaaaaa", "bbbbbbbbb", ""]


def test_so_many_calls_keep_their_ids() -> None:
    parser = request_parser(marked_parsers("mistral"), tools=TOOLS)
    calls = [f"[TOOL_CALLS]get_time[CALL_ID]{number:09}[ARGS]{{}}" for number in range(MAX_IDS + 2)]
    events = parse_chunks(parser, [to_pieces(parser, "".join(calls))])
    written = [each.written_id for each in events if isinstance(each, CallStart)]
    assert written == [*(f"{number:09}" for number in range(MAX_IDS)), "", ""]


@pytest.mark.parametrize("output", ['[TOOL_CALLS][{""]', "[TOOL_CALLS]f[ARGS]{x]", "[TOOL_CALLS]f[ARGS]{x}]"])
def test_brackets_after_a_fault_are_text(output: str) -> None:
    check(marked_parsers("mistral"), output, Message(output))


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize(
    "begun", ["[TOOL_CALLS]", "\n[TOOL_CALLS][TOOL_CALLS]", "[TOOL_CALLS]get_time[ARGS]"[:-1]]
)
def test_a_bracket_of_a_call_that_has_begun_is_not_read_alone(begun: str, *, cut: bool) -> None:
    parsers = marked_parsers("mistral", None, frozenset({"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}))
    check(parsers, f"[TOOL_CALLS]get_time{{}}{begun}", Message(calls=[TIME]), cut=cut)


def test_arguments_may_be_missing() -> None:
    check_both(marked_parsers("mistral"), "[TOOL_CALLS]get_time[ARGS]", Message(calls=[TIME]))
