"""Harmony, the messages of gpt-oss."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.parsers import Message

from ..support import PARIS, TIME, check, check_both, marked_parsers


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
            Message("Hi", "hmmm"),
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
            message("commentary to=browser.search", '{"a": 1}', "<|call|>"), Message(), id="an own tool"
        ),
        pytest.param(message("analysis to=python code", "1+1", "<|call|>"), Message(), id="an own tool's code"),
        pytest.param(
            message("final <|constrain|>json", '{"a": 1}', "<|return|>"),
            Message('{"a": 1}'),
            id="an answer in JSON",
        ),
        pytest.param(message("analysis", "hm", "", start=""), Message(reasoning="hm"), id="reasoning cut"),
        pytest.param(f"{THOUGHT}<|start|>assistant<|channel|>fin", Message(reasoning="hm"), id="a header cut"),
        pytest.param("Hi", Message("Hi"), id="text"),
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
    check(marked_parsers("openai"), THOUGHT + message("final", "Hi"), Message("hmHi"))


def test_unwanted_calls_become_content() -> None:
    output = THOUGHT + harmony_call(PARIS[1])
    check(marked_parsers("openai", "openai_gptoss"), output, Message(PARIS[1], "hm"), tool_choice="none")
