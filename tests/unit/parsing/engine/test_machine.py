"""What all formats share: reasoning between markers, and tool choices."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.parsers import Message

from ..support import NAMED, PARIS, TIME, check, check_both, marked_parsers

HERMES: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
HERMES_TIME: Final = '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", Message()),
        ("Hi", Message("Hi")),
        (" \n", Message(" \n")),
        ("\n\nHi \n", Message("\n\nHi \n")),
        (" " * 300, Message(" " * 300)),
        ("é 東京 😀", Message("é 東京 😀")),
        ("a < b <too", Message("a < b <too")),
        ("<think>\nhm\n</think>\n\nHi", Message("Hi", "hm")),
        ("<think>hm</think>Hi", Message("Hi", "hm")),
        ("<think>\n\n</think>\n\nHi", Message("Hi")),
        ("<think>\nhm\n\nmm\n</think>\n\nHi\n\nthere\n", Message("Hi\n\nthere\n", "hm\n\nmm")),
        ("\n<think>hm</think>Hi", Message("Hi", "hm")),
        ("</think>\n\nHi", Message("Hi")),
        ("<think>\nhm", Message(reasoning="hm")),
        ("<think>hm</think>", Message(reasoning="hm")),
        ("<think>hm</think> \n", Message(reasoning="hm")),
        ("<think>", Message()),
        ("<think>a</think>b<think>c</think>d", Message("b<think>c</think>d", "a")),
        ("<think>\na <think> b</think>Hi", Message("Hi", "a <think> b")),
    ],
)
def test_reasoning_between_markers_is_split_off(output: str, expected: Message) -> None:
    check(marked_parsers("hermes", "qwen3"), output, expected)
    check(marked_parsers(None, "qwen3"), output, expected)


@pytest.mark.parametrize("reasoning", ["deepseek_r1", "kimi_k2", "glm47"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("hm</think>\n\nHi", Message("Hi", "hm")),
        ("\nhm\n</think>Hi", Message("Hi", "\nhm")),
        ("<think>\nhm</think>Hi", Message("Hi", "hm")),
        ("\n<think>hm", Message(reasoning="hm")),
        ("hm", Message(reasoning="hm")),
        ("</think>Hi", Message("Hi")),
        ("hm" + HERMES, Message("", "hm", [PARIS])),
    ],
)
def test_an_output_begins_with_reasoning_if_the_model_always_thinks(
    reasoning: str, output: str, expected: Message
) -> None:
    check(marked_parsers("hermes", reasoning), output, expected)
    check(marked_parsers("hermes", "qwen3"), output, expected, chat_template_kwargs={"enable_thinking": True})


def test_an_output_begins_with_the_answer_if_thinking_is_off() -> None:
    check(
        marked_parsers("hermes", "deepseek_r1"),
        "Hi",
        Message("Hi"),
        chat_template_kwargs={"enable_thinking": False},
    )


@pytest.mark.parametrize(
    "quoted",
    [
        pytest.param("Use <tool_call>\n{ here.", id="no call"),
        pytest.param('Use <tool_call>\n{"name": "get_weather", "arguments": {"city": "Pa', id="an open string"),
        pytest.param("Use <tool_call> here. <think> there.", id="markers alone"),
    ],
)
def test_a_call_that_is_quoted_in_the_reasoning_does_not_hide_its_end(quoted: str) -> None:
    check_both(marked_parsers("hermes", "qwen3"), f"<think>{quoted}</think>Hi", Message("Hi", quoted))
    check_both(
        marked_parsers("hermes", "qwen3"),
        f"<think>{quoted}</think>Hi\n{HERMES}",
        Message("Hi", quoted, [PARIS]),
    )


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Hi <think>.", Message("Hi <think>.")),
        ("<think>hm</think>Stop at </think> please.", Message("Stop at </think> please.", "hm")),
        (f"{HERMES}<think>hm</think>Hi", Message("Hi", "hm", [PARIS])),
        (f"Hi {HERMES}Bye <think>", Message("Hi Bye <think>", "", [PARIS])),
        ("<think>a</think>\n<think>b</think>\n\nHi", Message("Hi", "a\nb")),
        ("<think>a</think>\n\n    b\n", Message("    b\n", "a")),
    ],
)
def test_an_answer_that_has_begun_may_name_the_markers_of_reasoning(output: str, expected: Message) -> None:
    check_both(marked_parsers("hermes", "qwen3"), output, expected)


def test_reasoning_markers_are_text_without_a_reasoning_parser() -> None:
    check(
        marked_parsers("hermes"),
        f"<think>\nhm\n</think>\n\nHi\n{HERMES}",
        Message("<think>\nhm\n</think>\n\nHi", "", [PARIS]),
    )


@pytest.mark.parametrize("choice", [None, "none", "auto", "required", NAMED])
def test_calls_are_text_without_a_tool_call_parser(choice: Any) -> None:
    check(
        marked_parsers(None, "qwen3"), f"<think>hm</think>{HERMES}", Message(HERMES, "hm"), tool_choice=choice
    )


BARE: Final = '{"name": "get_weather", "parameters": {"city": "Paris"}}'
BARE_TIME: Final = '{"name": "get_time", "parameters": {}}'


@pytest.mark.parametrize(
    "request_",
    [{"tool_choice": "none"}, {"tool_choice": None}, {"tools": []}, {"tools": [], "tool_choice": "auto"}],
)
@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (f"Hi {HERMES}", Message(f"Hi {HERMES}")),
        (f"<think>hm</think>{HERMES}", Message(HERMES, "hm")),
        (f"[{BARE}]", Message(f"[{BARE}]")),
        ('{"city": "Paris"}', Message('{"city": "Paris"}')),
    ],
)
def test_unwanted_calls_are_content_as_written(
    request_: dict[str, Any], output: str, expected: Message
) -> None:
    check_both(marked_parsers("hermes", "qwen3"), output, expected, **request_)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(f"[{BARE}]", Message(calls=[PARIS]), id="a list"),
        pytest.param(f" \n[ {BARE},{BARE_TIME} ]\n", Message(calls=[PARIS, TIME]), id="a list of two"),
        pytest.param(BARE, Message(calls=[PARIS]), id="an object"),
        pytest.param(f"<think>hm</think>\n\n[{BARE}]", Message("", "hm", [PARIS]), id="after reasoning"),
        pytest.param(HERMES, Message(calls=[PARIS]), id="markup"),
        pytest.param(f"Hi {HERMES}{HERMES_TIME}", Message("Hi", "", [PARIS, TIME]), id="text and markup"),
        pytest.param(f"<think>hm</think>{HERMES}", Message("", "hm", [PARIS]), id="markup after reasoning"),
        pytest.param("Hi", Message("Hi"), id="no call"),
        pytest.param("[1]", Message("[1]"), id="another list"),
        pytest.param("[]", Message("[]"), id="an empty list"),
        pytest.param(f"Hi [{BARE}]", Message(f"Hi [{BARE}]"), id="a list in text"),
    ],
)
def test_required_calls_may_be_bare_json_or_markup(output: str, expected: Message) -> None:
    check_both(marked_parsers("hermes", "qwen3"), output, expected, tool_choice="required")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (f"[{BARE}, {BARE_TIME[:12]}", Message(calls=[PARIS])),
        (f"[{BARE}", Message(calls=[PARIS])),
        (f"[{BARE[:-4]}", Message(f"[{BARE[:-4]}")),
        ("[", Message("[")),
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_complete_calls_survive_a_cut_in_required_calls(output: str, expected: Message, cut: bool) -> None:
    check(marked_parsers("hermes", "qwen3"), output, expected, tool_choice="required", cut=cut)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param('{"city": "Paris"}', Message(calls=[PARIS]), id="arguments"),
        pytest.param(' \n{"city": "Paris"}\n', Message(calls=[PARIS]), id="arguments in white space"),
        pytest.param("{}", Message(calls=[("get_weather", "{}")]), id="no arguments"),
        pytest.param('<think>hm</think>\n{"city": "Paris"}', Message("", "hm", [PARIS]), id="after reasoning"),
        pytest.param(BARE, Message(calls=[PARIS]), id="a whole call"),
        pytest.param(
            BARE.replace("parameters", "arguments"), Message(calls=[PARIS]), id="a whole call, arguments"
        ),
        pytest.param(f"[{BARE}]", Message(calls=[PARIS]), id="a list of a call"),
        pytest.param(
            '{"name": "Paris", "arguments": "x"}',
            Message(calls=[("get_weather", '{"name": "Paris", "arguments": "x"}')]),
            id="arguments that look like a call",
        ),
        pytest.param(HERMES, Message(calls=[PARIS]), id="markup"),
        pytest.param("Hi", Message("Hi"), id="text"),
        pytest.param('"Paris"', Message('"Paris"'), id="another value"),
        pytest.param("[1]", Message("[1]"), id="another list"),
    ],
)
def test_a_named_tools_arguments_may_be_bare(output: str, expected: Message) -> None:
    check_both(marked_parsers("hermes", "qwen3"), output, expected, tool_choice=NAMED)


@pytest.mark.parametrize("output", ['{"city": "Pa', '{"city": oops}', "{", '{"city"'])
def test_malformed_arguments_of_a_named_tool_are_content(output: str) -> None:
    check(marked_parsers("hermes", "qwen3"), output, Message(output), tool_choice=NAMED)
    check(marked_parsers("hermes", "qwen3"), output, Message(output), tool_choice=NAMED, cut=True)


def test_a_forced_tool_need_not_be_offered() -> None:
    check(
        marked_parsers("hermes", "qwen3"),
        '{"city": "Paris"}',
        Message(calls=[PARIS]),
        tools=[],
        tool_choice=NAMED,
    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_only_the_first_call_is_kept_without_parallel_calls(count: int) -> None:
    output = f"Hi {HERMES}{HERMES_TIME * (count - 1)}"
    check_both(marked_parsers("hermes", "qwen3"), output, Message("Hi", "", [PARIS]), parallel_tool_calls=False)
    listed = f"[{', '.join([BARE, *[BARE_TIME] * (count - 1)])}]"
    request = {"tool_choice": "required", "parallel_tool_calls": False}
    check_both(marked_parsers("hermes", "qwen3"), listed, Message(calls=[PARIS]), **request)
