"""Harmony, the messages of gpt-oss."""

from __future__ import annotations

from typing import Any, Final

import pytest

from derender.parsing import load_parsers
from tests.support.engine import Stream, parse_chunks
from tests.support.parsers import Message, fold, request_parser

from ..support import (
    NAMED,
    PARIS,
    TIME,
    TOOLS,
    check,
    check_both,
    encode,
    marked_parsers,
    marked_vocabulary,
    marker_texts,
    parse_output,
    to_pieces,
)


def message(channel: str, text: str, end: str = "<|end|>", start: str = "<|start|>assistant") -> str:
    return f"{start}<|channel|>{channel}<|message|>{text}{end}"


def harmony_call(arguments: str, to: str = "functions.get_weather") -> str:
    return message(f"commentary to={to} <|constrain|>json", arguments, "<|call|>")


THOUGHT: Final = message("analysis", "hm", start="")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(message("final", "Hi", "", start=""), Message("Hi"), id="an answer"),
        pytest.param(
            THOUGHT + message("final", "Hi", "<|return|>"), Message("Hi", "hm"), id="reasoning and an answer"
        ),
        pytest.param(
            THOUGHT + message("analysis", "mm") + message("final", "Hi"),
            Message("Hi", "hm\nmm"),
            id="more reasoning",
        ),
        pytest.param(THOUGHT + harmony_call(PARIS[1]), Message("", "hm", [PARIS]), id="a call"),
        pytest.param(
            harmony_call(PARIS[1]) + harmony_call("{}", "functions.get_time"),
            Message(calls=[PARIS, TIME]),
            id="two",
        ),
        pytest.param(
            THOUGHT + message("commentary", "Let me.") + harmony_call(PARIS[1]),
            Message("Let me.", "hm", [PARIS]),
            id="a preamble and a call",
        ),
        pytest.param(
            THOUGHT
            + message("commentary", PARIS[1], "<|call|>", "<|start|>assistant to=functions.get_weather"),
            Message("", "hm", [PARIS]),
            id="whom it is for comes first",
        ),
        pytest.param(
            message("commentary to=functions.get_weather", PARIS[1], ""),
            Message(calls=[PARIS]),
            id="no end of a call",
        ),
        pytest.param(
            message("commentary to=functions.get_time ", "", "<|call|>"),
            Message(calls=[TIME]),
            id="no arguments",
        ),
        pytest.param(
            message("final <|constrain|>json", '{"a": 1}', "<|return|>"),
            Message('{"a": 1}'),
            id="an answer in JSON",
        ),
        pytest.param(message("analysis", "hm", "", start=""), Message(reasoning="hm"), id="reasoning cut"),
        pytest.param(f"{THOUGHT}<|start|>assistant<|channel|>fin", Message(reasoning="hm"), id="a header cut"),
        pytest.param("Hi", Message("Hi"), id="text"),
        pytest.param("A<|channel|>analysis<|return|>B", Message("A\nB"), id="texts around an empty header"),
        pytest.param(
            harmony_call('{"city": "<|end|><|start|>"}'),
            Message(calls=[("get_weather", '{"city": "<|end|><|start|>"}')]),
            id="markers in a string",
        ),
    ],
)
def test_messages_are_parsed(output: str, expected: Message) -> None:
    check_both(marked_parsers("openai", "openai_gptoss"), output, expected)


def test_reasoning_is_content_without_a_reasoning_parser() -> None:
    check(marked_parsers("openai"), THOUGHT + message("final", "Hi"), Message("hm\nHi"))


FINAL: Final = message("final", "Hi", "<|return|>", start="")
CALL: Final = f"<|message|>{PARIS[1]}<|call|>"
PARSERS: Final = ("openai", "openai_gptoss")


@pytest.mark.parametrize("end", ["<|end|>", "<|return|>", "<|call|>"])
@pytest.mark.parametrize(
    "start",
    ["", "assistant", "final", "assistant final", "\n", "<|end|>", "<|start|>", "<|start|>assistant" * 2],
)
def test_a_header_needs_no_start(start: str, end: str) -> None:
    output = message("analysis", "hm", end, start="") + start + FINAL
    check_both(marked_parsers(*PARSERS), output, Message("Hi", "hm"))


@pytest.mark.parametrize("end", ["<|call|>", "<|end|>", ""])
@pytest.mark.parametrize(
    "header",
    [
        "commentary<|channel|>commentary to=functions.get_weather",
        "commentary to=functions.get_weather <|constrain|>json",
        "assistant to=functions.get_weather<|channel|>commentary json",
        " to=get_weather<|channel|>commentary",
        "<|channel|>commentary to=get_weather code",
    ],
)
def test_a_call_needs_no_start(header: str, end: str) -> None:
    first = message("commentary to=functions.get_time", "{}", end, start="")
    check_both(marked_parsers(*PARSERS), first + header + CALL, Message(calls=[TIME, PARIS]))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Hello there", Message("Hello there", "hm")),
        ("\n\nHello<|return|>", Message("Hello", "hm")),
        ("final answer: 5", Message("final answer: 5", "hm")),
        ("Hello<|channel|>final<|message|>you", Message("Hello\nyou", "hm")),
        ('{"a": 1}', Message('{"a": 1}', "hm")),
        ("a", Message("a", "hm")),
        ("finally", Message("finally", "hm")),
        ("<|start|>assistantHi", Message("Hi", "hm")),
        ("assistant", Message("", "hm")),
        ("assistant final", Message("", "hm")),
        ("final", Message("", "hm")),
    ],
)
def test_text_behind_the_end_of_a_message_is_content(output: str, expected: Message) -> None:
    check_both(marked_parsers(*PARSERS), THOUGHT + output, expected)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Hi<|end|>you", Message("Hi\nyou")),
        ("Hi<|end|><|channel|>final<|message|>you", Message("Hi\nyou")),
        ("Hi<|channel|>analysis<|message|>hm", Message("Hi", "hm")),
        ("Hi<|message|>you", Message("Hi\nyou")),
        ("to", Message("to")),
        ("assistant", Message("assistant")),
        ("Hi<|return|>", Message("Hi<|return|>")),
    ],
)
def test_text_outside_messages_is_content(output: str, expected: Message) -> None:
    check_both(marked_parsers(*PARSERS), output, expected)


@pytest.mark.parametrize(
    "content_type", ["", " json", "<|constrain|>json", " <|constrain|>json", "<|constrain|>"]
)
@pytest.mark.parametrize("channel", ["commentary", "analysis", "final"])
@pytest.mark.parametrize(
    "to", ["functions.get_weather", "get_weather", '"functions.get_weather"', "'get_weather'"]
)
def test_a_message_to_a_function_is_a_call(to: str, channel: str, content_type: str) -> None:
    for header in (
        f"<|channel|>{channel} to={to}{content_type}",
        f"<|channel|>{channel}{content_type} to={to}",
        f"<|start|>assistant to={to}<|channel|>{channel}{content_type}",
        f" to={to}<|channel|>{channel}{content_type}",
        f"<|channel|>{channel} code{content_type} to={to}",
    ):
        parser = request_parser(marked_parsers(*PARSERS), tools=TOOLS)
        pieces = to_pieces(parser, header + CALL)
        assert fold(parse_chunks(parser, [pieces])) == Message(calls=[PARIS])
        assert fold(parse_chunks(parser, [[piece] for piece in pieces])) == Message(calls=[PARIS])


def test_a_message_to_a_function_in_another_channel_is_a_call() -> None:
    output = message("other to=get_weather", PARIS[1], "<|call|>")
    check_both(marked_parsers(*PARSERS), output, Message(calls=[PARIS]))


def test_a_function_with_the_prefix_is_called_whether_it_is_offered_or_not() -> None:
    output = harmony_call(PARIS[1], "functions.get_news")
    check_both(marked_parsers(*PARSERS), output, Message(calls=[("get_news", PARIS[1])]))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("analysis to=python code", Message(reasoning="1+1")),
        ("analysis to=browser.search", Message(reasoning="1+1")),
        ("commentary to=get_news", Message(reasoning="1+1")),
        ("commentary to=python3 code", Message(reasoning="1+1")),
        ("commentary to=assistant<|channel|>analysis", Message(reasoning="1+1")),
        ("commentary to=assistant<|channel|>final", Message("1+1")),
        ("other", Message(reasoning="1+1")),
        ("commentary to=python code", Message()),
        ("commentary to=browser.search", Message()),
        ("commentary to=container.exec <|constrain|>json", Message()),
        ("final to=python", Message("1+1")),
    ],
)
def test_a_message_that_is_no_call_is_for_whom_its_channel_says(header: str, expected: Message) -> None:
    channel, _, to = header.partition(" ")
    for output in (message(header, "1+1", "<|call|>", start=""), message(header, "1+1", "<|call|>")):
        check_both(marked_parsers(*PARSERS), output, expected)
    if to.startswith("to=") and "<" not in to:
        recipient, _, content_type = to.partition(" ")
        output = f" {recipient}<|channel|>{channel} {content_type}<|message|>1+1<|call|>"
        check_both(marked_parsers(*PARSERS), output, expected)


@pytest.mark.parametrize("request_", [{"tools": []}, {"tool_choice": "none"}])
@pytest.mark.parametrize("to", ["functions.get_weather", "get_weather"])
def test_calls_that_are_not_wanted_become_reasoning(to: str, request_: dict[str, Any]) -> None:
    for call in (harmony_call(PARIS[1], to), f"<|start|>assistant to={to}<|channel|>commentary{CALL}"):
        output = THOUGHT + call + message("final", "Hi")
        check_both(marked_parsers(*PARSERS), output, Message("Hi", f"hm\n{PARIS[1]}"), **request_)


def test_arguments_that_are_not_wanted_are_no_answer_in_any_channel() -> None:
    for channel in ("analysis", "commentary", "final"):
        output = message(f"{channel} to=functions.get_weather", PARIS[1], "<|call|>")
        check_both(marked_parsers(*PARSERS), output, Message(reasoning=PARIS[1]), tool_choice="none")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([("commentary", "A."), ("final", "B.")], Message("A.\nB.")),
        ([("final", "A"), ("analysis", "x"), ("final", "B"), ("analysis", "y")], Message("A\nB", "x\ny")),
        ([("final", ""), ("final", "A"), ("final", ""), ("final", "B"), ("final", "")], Message("A\nB")),
        ([("final", "A"), ("final", " \n"), ("final", "B")], Message("A\nB")),
        ([("final", "A"), ("final", "\n  B")], Message("A\n  B")),
        ([("analysis", "x"), ("analysis to=python", "1+1")], Message(reasoning="x\n1+1")),
        (
            [("commentary", "A"), ("commentary to=get_weather", PARIS[1]), ("final", "B")],
            Message("A\nB", "", [PARIS]),
        ),
    ],
)
def test_messages_are_joined_by_lines(messages: list[tuple[str, str]], expected: Message) -> None:
    output = "".join(message(channel, text) for channel, text in messages)
    check_both(marked_parsers(*PARSERS), output, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("not json", Message("Hi", "hm\nnot json")),
        ("{not json}", Message("Hi", "hm\n{not json}")),
        ('{"a": x}', Message("Hi", 'hm\n{"a": x}')),
        ('{{"a": 1}}', Message("Hi", 'hm\n{{"a": 1}}')),
        ("[1]", Message("Hi", "hm\n[1]")),
        ('{"city": "Paris"}} ok', Message("Hi", "hm\n} ok", [PARIS])),
        ('{"city": "Paris"}\n', Message("Hi", "hm", [PARIS])),
    ],
)
def test_a_call_that_is_none_becomes_reasoning(text: str, expected: Message) -> None:
    output = THOUGHT + harmony_call(text) + message("final", "Hi")
    check(marked_parsers(*PARSERS), output, expected)


def test_text_in_place_of_arguments_begins_no_call() -> None:
    check_both(marked_parsers(*PARSERS), harmony_call("not json"), Message(reasoning="not json"))


def test_a_streamed_call_that_is_broken_loses_nothing_behind_the_fault() -> None:
    check(
        marked_parsers("openai"),
        message("final", "A") + harmony_call("{=x}") + message("final", "Hi"),
        Message("A\n{=x}\nHi"),
    )
    parser = request_parser(marked_parsers(*PARSERS), tools=TOOLS)
    output = harmony_call("{=x}") + message("final", "Hi")
    assert parse_output(parser, output) == Message("Hi", "{=x}")
    output = harmony_call('{"city": x}') + message("final", "Hi")
    assert parse_output(parser, output) == Message("Hi", "x}", [("get_weather", '{"city": ')])


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("<|channel|>final Hello there<|return|>", Message("Hello there")),
        ("<|channel|>final Hello there", Message("Hello there")),
        ("<|channel|>final 42", Message("42")),
        ("<|channel|>final\nHello", Message("Hello")),
        ("<|channel|>finalHello there", Message("Hello there")),
        ('<|channel|>final{"a": 1}', Message('{"a": 1}')),
        ("<|channel|>analysis hm<|end|><|start|>assistant<|channel|>final Hi", Message("Hi", "hm")),
        ("<|start|>assistant Hello<|return|>", Message("Hello")),
        *(
            (
                f"<|channel|>commentary to=functions.get_weather{content_type}{PARIS[1]}<|call|>",
                Message(calls=[PARIS]),
            )
            for content_type in ("", " ", " json", "<|constrain|>json", " <|constrain|>json ", "\n")
        ),
        ("<|channel|>commentary to=functions.get_weather", Message()),
    ],
)
def test_a_header_needs_no_message_marker(output: str, expected: Message) -> None:
    check_both(marked_parsers(*PARSERS), output, expected)


@pytest.mark.parametrize(
    "output",
    [
        "<|channel|>final<|channel|>final<|message|>Hi",
        "<|channel|><|channel|>final<|message|>Hi",
        "<|channel|>commentary<|channel|>final<|message|>Hi",
        "<|channel|>final<|message|><|message|>Hi",
        "<|channel|>final final<|message|>Hi",
        "<|channel|>final text json<|message|>Hi",
        "<|channel|><|message|>Hi",
        "<|message|>Hi",
        "<|channel|>final<|message|>Hi<|end|><|end|><|return|>",
    ],
)
def test_markers_may_be_doubled_or_missing(output: str) -> None:
    check_both(marked_parsers(*PARSERS), output, Message("Hi"))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("<|channel|>analysis<|message|>hm<|channel|>final<|message|>Hi", Message("Hi", "hm")),
        (f"<|channel|>analysis<|message|>hm.to=functions.get_weather{CALL}", Message("", "hm.", [PARIS])),
        (f"Hi.to=functions.get_weather<|channel|>commentary{CALL}", Message("Hi.", calls=[PARIS])),
    ],
)
def test_a_header_ends_a_message_that_has_no_end(output: str, expected: Message) -> None:
    check_both(marked_parsers(*PARSERS), output, expected)


WHOLE: Final = (
    message("analysis", "hm", start="")
    + message("final", "A")
    + message("analysis", "mm")
    + harmony_call(PARIS[1])
    + message("final", "B", "<|return|>")
)


def test_a_cut_shows_no_header() -> None:
    parser = request_parser(marked_parsers(*PARSERS), tools=TOOLS, whole_calls=True)
    pieces = [
        character
        for piece in to_pieces(parser, WHOLE)
        for character in (piece if isinstance(piece, str) else [piece])
    ]
    whole = Message("A\nB", "hm\nmm", [PARIS])
    assert fold(parse_chunks(parser, [pieces])) == whole
    for place in range(len(pieces)):
        message = fold(parse_chunks(parser, [pieces[:place]], cut=True))
        assert whole.content.startswith(message.content)
        assert message.calls in ([], [PARIS])
        # A call that is cut is reasoning.
        thought, _, arguments = message.reasoning.partition("\n{")
        assert whole.reasoning.startswith(thought)
        assert PARIS[1].startswith(f"{{{arguments}") or not arguments


@pytest.mark.parametrize("before", ["", THOUGHT, THOUGHT + "<|start|>assistant<|channel|>final<|message|>"])
def test_guided_decoding_writes_calls_as_bare_json(before: str) -> None:
    reasoning = "hm" if before else ""
    parsers = marked_parsers(*PARSERS)
    output = f'{before}[{{"name": "get_weather", "parameters": {PARIS[1]}}}]'
    check_both(parsers, output, Message("", reasoning, [PARIS]), tool_choice="required")
    check_both(parsers, before + PARIS[1], Message("", reasoning, [PARIS]), tool_choice=NAMED)


@pytest.mark.parametrize(
    ("prompt", "output", "expected"),
    [
        ("<|start|>", "assistant<|channel|>final<|message|>Hi", Message("Hi")),
        ("<|start|>assistant", "<|channel|>final<|message|>Hi", Message("Hi")),
        ("<|start|>assistant", f" to=get_weather<|channel|>commentary{CALL}", Message(calls=[PARIS])),
        ("<|start|>assistant<|channel|>", "final<|message|>Hi", Message("Hi")),
        ("<|start|>assistant<|channel|>analysis", "<|message|>hm<|end|>", Message(reasoning="hm")),
        ("<|start|>assistant<|channel|>commentary to=", f"get_weather{CALL}", Message(calls=[PARIS])),
        ("<|start|>assistant<|channel|>commentary to=functions.get_weather", CALL, Message(calls=[PARIS])),
        ("<|start|>assistant<|channel|>final<|message|>", "Hi<|return|>", Message("Hi")),
        ("<|start|>assistant<|channel|>final<|message|>A<|end|><|start|>assistant", FINAL, Message("Hi")),
    ],
)
def test_a_prompt_may_end_inside_a_header(prompt: str, output: str, expected: Message) -> None:
    vocabulary = marked_vocabulary(sorted(marker_texts(*PARSERS)))
    parsers = load_parsers(vocabulary, *PARSERS)
    assert parsers
    for whole_calls in (True, False):
        parser = request_parser(parsers, tools=TOOLS, whole_calls=whole_calls)
        stream = Stream(vocabulary, parser, encode(vocabulary, prompt))
        for token_id in encode(vocabulary, output):
            stream.feed([token_id])
        assert fold(stream.ended(cut=False)) == expected
