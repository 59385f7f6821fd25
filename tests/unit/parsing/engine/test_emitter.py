"""What is emitted, and when: calls that are streamed, kept, skipped or given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from derender.parsing import CallEnd, Content, dump_state, finish, parse, read_start
from derender.parsing.engine.lifecycle import Status
from tests.support.parsers import Message, fold, request_parser

from ..support import PARIS, TOOLS, marked_parsers, parse_output, to_pieces

if TYPE_CHECKING:
    from derender.parsing import Parser, ParserState

CALL: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
BEGUN: Final = CALL.partition("Par")[0]


def hermes(**request: object) -> Parser:
    return request_parser(marked_parsers("hermes", "qwen3"), tools=TOOLS, **request)  # type: ignore[arg-type]


def run(parser: Parser, text: str) -> tuple[Message, ParserState]:
    """Parse the beginning of an output."""
    events, state = parse(parser, read_start(parser, None).state, to_pieces(parser, text))
    return fold(events), state


@pytest.mark.parametrize(
    ("output", "calls", "status"),
    [
        pytest.param(
            BEGUN, [("get_weather", '{"city": "')], Status.STREAMED, id="the first, once its arguments begin"
        ),
        pytest.param(
            '<tool_call>{"name": "f", "arguments": {',
            [],
            Status.BUFFERED,
            id="the first, before its arguments begin",
        ),
        pytest.param("<think>hm" + BEGUN, [], Status.BUFFERED, id="the first, in reasoning"),
        pytest.param(CALL + BEGUN, [PARIS], Status.BUFFERED, id="a later one, once it is complete"),
        pytest.param(CALL + CALL, [PARIS, PARIS], None, id="a later one that is complete"),
        pytest.param(
            CALL + BEGUN + "x" * 1000,
            [PARIS, ("get_weather", '{"city": "' + "x" * 1000)],
            Status.STREAMED,
            id="a later one that is long",
        ),
        pytest.param(
            '<tool_call>[{"name": "f"}, {"name": "g", "arguments": {"a": "' + "x" * 1000,
            [("f", "{}"), ("g", '{"a": "' + "x" * 1000)],
            Status.STREAMED,
            id="a later one in one markup that is long",
        ),
    ],
)
def test_streamed_calls_are_emitted_as_they_arrive(
    output: str, calls: list[tuple[str, str]], status: Status | None
) -> None:
    message, state = run(hermes(), output)
    assert message.calls == calls
    assert (state.calls and state.calls.status) is status


def test_whole_calls_are_emitted_once_complete() -> None:
    message, state = run(hermes(whole_calls=True), CALL + BEGUN + "x" * 1000)
    assert message.calls == [PARIS]
    assert state.calls is not None
    assert state.calls.status is Status.BUFFERED


@pytest.mark.parametrize("whole_calls", [False, True])
def test_a_second_call_is_skipped_without_parallel_calls(whole_calls: bool) -> None:
    parser = hermes(whole_calls=whole_calls, parallel_tool_calls=False)
    message, state = run(parser, CALL + BEGUN)
    assert message.calls == [PARIS]
    assert state.calls is not None
    assert state.calls.status is Status.SKIPPED
    assert finish(parser, state, cut=True) == []


@pytest.mark.parametrize("rest", ["oops", "</tool_call>"])
def test_a_malformed_skipped_call_is_dropped_and_the_kept_one_emitted(rest: str) -> None:
    parser = hermes(whole_calls=True, parallel_tool_calls=False)
    output = f'<tool_call>[{{"name": "f"}}, {{"name": "g", "arguments": {rest}'
    events, _ = parse(parser, read_start(parser, None).state, to_pieces(parser, f"{output} tail"))
    assert fold(events).calls == [("f", "{}")]


def test_the_rest_of_a_broken_call_is_text() -> None:
    parser = request_parser(marked_parsers("kimi_k2"), tools=TOOLS)
    output = '<|tool_calls_section_begin|><|tool_call_begin|>f:0<|tool_call_argument_begin|>{"a": 1 oops'
    message, state = run(parser, output)
    assert message == Message("oops", calls=[("f", '{"a": 1 ')])
    assert state.calls is None
    assert finish(parser, state, cut=False) == []


def test_an_object_that_breaks_behind_its_arguments_is_no_whole_call() -> None:
    parser = request_parser(marked_parsers("hermes"), tools=TOOLS)
    output = '<tool_call>{"name": "f", "arguments": {"a": 1} oops}</tool_call>'
    assert parse_output(parser, output) == Message("oops}</tool_call>", calls=[("f", '{"a": 1')])


def test_what_was_kept_of_a_value_is_text_if_its_call_breaks() -> None:
    parser = request_parser(marked_parsers("glm47"), tools=TOOLS)
    output = "<tool_call>get_weather<arg_key>where</arg_key><arg_value>{}</arg_value><arg_value>"
    assert parse_output(parser, output) == Message(
        "{}</arg_value><arg_value>", calls=[("get_weather", '{"where": ')]
    )


@pytest.mark.parametrize("whole_calls", [False, True])
@pytest.mark.parametrize(
    ("output", "cut", "ends"),
    [
        pytest.param(CALL + CALL, False, [0, 1], id="complete"),
        pytest.param(CALL + BEGUN, True, [0], id="cut"),
        pytest.param(BEGUN, True, [], id="the first is cut"),
        pytest.param(BEGUN + "\x00oops", False, [], id="broken"),
    ],
)
def test_only_complete_calls_end(output: str, cut: bool, ends: list[int], whole_calls: bool) -> None:
    parser = hermes(whole_calls=whole_calls)
    events, state = parse(parser, read_start(parser, None).state, to_pieces(parser, output))
    events += finish(parser, state, cut=cut)
    assert [event.index for event in events if isinstance(event, CallEnd)] == ends


@pytest.mark.parametrize("whole_calls", [False, True])
@pytest.mark.parametrize("output", ["Hi \n", "<think>hm", BEGUN, CALL + BEGUN, '<tool_call>{"arguments": {"a'])
def test_parsing_does_not_change_the_state_it_is_given(output: str, whole_calls: bool) -> None:
    parser = hermes(whole_calls=whole_calls)
    _, state = run(parser, output)
    before = dump_state(parser, state)
    for more in ("x", '"}}', "</tool_call>"):
        parse(parser, state, to_pieces(parser, more))
        finish(parser, state, cut=False)
        assert dump_state(parser, state) == before


@pytest.mark.parametrize("output", [BEGUN, CALL + BEGUN, "Hi <tool_call> "])
def test_a_state_does_not_depend_on_the_split(output: str) -> None:
    parser = hermes(whole_calls=True)
    _, whole = run(parser, output)
    state = read_start(parser, None).state
    for piece in to_pieces(parser, output):
        for character in [piece] if isinstance(piece, int) else piece:
            _, state = parse(parser, state, [character])
    assert state == whole


def test_white_space_waits_for_the_first_text() -> None:
    parser = request_parser(marked_parsers("gemma4"), tools=TOOLS)
    events, state = parse(parser, read_start(parser, None).state, ["\n"])
    assert (events, state.leading_space) == ([], "\n")
    assert parse(parser, state, ["Hi"])[0] == [Content("\nHi")]
    assert finish(parser, state, cut=False) == [Content("\n")]
    assert (
        fold(parse(parser, state, to_pieces(parser, "<|tool_call>call:get_time{}<tool_call|>"))[0]).content
        == ""
    )
