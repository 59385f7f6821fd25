"""Messages of chat completions: reasoning, content, calls, and the finish reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Deploy, TokenizerFolder

    Ask = Callable[..., tuple[int, Any]]

CHAT: Final = "/v1/chat/completions/derender"
TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    },
    {"type": "function", "function": {"name": "get_time"}},
]
NAMED: Final = {"type": "function", "function": {"name": "get_weather"}}
CALL: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city":"Zürich"}}\n</tool_call>'
CITY: Final = ("get_weather", '{"city":"Zürich"}')
ANSWERS: Final = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
MAY_THINK: Final = "<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def ask(deploy: Deploy, tokenizer: TokenizerFolder) -> Ask:
    """Derender outputs of Qwen3 with the parsers `hermes` and `qwen3`."""
    environment = {"DERENDER_TOOL_CALL_PARSER": "hermes", "DERENDER_REASONING_PARSER": "qwen3"}
    endpoint = deploy("qwen3", environment)
    definition = Tokenizer.from_file(str(tokenizer("qwen3") / "tokenizer.json"))

    def encode(text: str) -> list[int]:
        ids: list[int] = definition.encode(text, add_special_tokens=False).ids
        return ids

    def post(
        *outputs: str,
        prompt: str | None = ANSWERS,
        finish: str | None = "stop",
        request_id: str = "req",
        **client: Any,
    ) -> tuple[int, Any]:
        choices = [
            {"index": index, "token_ids": encode(output), "finish_reason": finish}
            for index, output in enumerate(outputs)
        ]
        body: dict[str, Any] = {
            "generate_response": {"request_id": request_id, "choices": choices},
            "chat_request": client,
        }
        if prompt is not None:
            body["prompt_token_ids"] = encode(prompt)
        return endpoint.exchange(CHAT, body)

    return post


def message(answer: tuple[int, Any]) -> tuple[Any, Any, list[tuple[str, str]], str]:
    """Return content, reasoning, calls and finish reason of the only choice."""
    status, body = answer
    assert status == 200, body
    (choice,) = body["choices"]
    said = choice["message"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in said.get("tool_calls", [])]
    return said["content"], said["reasoning"], calls, choice["finish_reason"]


@pytest.mark.parametrize(
    ("output", "client", "expected"),
    [
        pytest.param(CALL, {"tools": TOOLS}, (None, None, [CITY], "tool_calls"), id="a call"),
        pytest.param(
            f"Let me see.\n{CALL}",
            {"tools": TOOLS, "tool_choice": "auto"},
            ("Let me see.", None, [CITY], "tool_calls"),
            id="text and a call",
        ),
        pytest.param(f"{CALL}\n{CALL}", {"tools": TOOLS}, (None, None, [CITY, CITY], "tool_calls"), id="two"),
        pytest.param(
            f"{CALL}\n{CALL}",
            {"tools": TOOLS, "parallel_tool_calls": False},
            (None, None, [CITY], "tool_calls"),
            id="the first of two",
        ),
        pytest.param(
            f"Hi\n{CALL}",
            {"tools": TOOLS, "tool_choice": "none"},
            (f"Hi\n{CALL}", None, [], "stop"),
            id="calls switched off",
        ),
        pytest.param(
            CALL,
            {"tools": TOOLS, "tool_choice": None},
            (CALL, None, [], "stop"),
            id="calls switched off with null",
        ),
        pytest.param(
            CALL,
            {},
            (CALL, None, [], "stop"),
            id="no tools",
        ),
        pytest.param(
            '[{"name": "get_weather", "parameters": {"city":"Zürich"}}]',
            {"tools": TOOLS, "tool_choice": "required"},
            ("", None, [CITY], "tool_calls"),
            id="required, bare",
        ),
        pytest.param(
            CALL,
            {"tools": TOOLS, "tool_choice": "required"},
            ("", None, [CITY], "tool_calls"),
            id="required, marked",
        ),
        pytest.param(
            "No.", {"tools": TOOLS, "tool_choice": "required"}, ("No.", None, [], "stop"), id="required, text"
        ),
        pytest.param(
            '{"city":"Zürich"}',
            {"tools": TOOLS, "tool_choice": NAMED},
            ("", None, [CITY], "stop"),
            id="named, bare",
        ),
        pytest.param(
            CALL, {"tools": TOOLS, "tool_choice": NAMED}, ("", None, [CITY], "stop"), id="named, marked"
        ),
    ],
)
def test_an_output_becomes_a_message(
    ask: Ask, output: str, client: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert message(ask(output, **client)) == expected


def test_a_call_before_the_cut_keeps_the_engines_reason(ask: Ask) -> None:
    assert message(ask(f"{CALL}\n<tool_call>\n{{", finish="length", tools=TOOLS)) == (
        None,
        None,
        [CITY],
        "length",
    )


def test_a_message_without_calls_has_no_tool_calls(ask: Ask) -> None:
    status, body = ask("Hello", tools=TOOLS)
    assert status == 200
    assert "tool_calls" not in body["choices"][0]["message"]


@pytest.mark.parametrize(
    ("output", "prompt", "client", "content", "reasoning"),
    [
        ("<think>\nhm\n</think>\n\nHi", MAY_THINK, {}, "Hi", "hm"),
        ("hm\n</think>\n\nHi", f"{MAY_THINK}<think>\n", {}, "Hi", "hm"),
        ("hm", f"{MAY_THINK}<think>\n", {}, None, "hm"),
        ("Hi", ANSWERS, {}, "Hi", None),
        ("Hi", None, {}, "Hi", None),
        ("hm\n</think>\n\nHi", None, {"chat_template_kwargs": {"enable_thinking": True}}, "Hi", "hm"),
        ("Hi", None, {"chat_template_kwargs": {"enable_thinking": False}}, "Hi", None),
        ("hm\n</think>\n\nHi", None, {}, "Hi", "hm"),
        ("hm\n</think>\n\nHi", None, {"include_reasoning": False}, "Hi", None),
        ("<think>\nhm\n</think>\n\nHi", MAY_THINK, {"include_reasoning": False}, "Hi", None),
    ],
)
def test_reasoning_is_split_from_content(
    ask: Ask,
    output: str,
    prompt: str | None,
    client: dict[str, Any],
    content: str | None,
    reasoning: str | None,
) -> None:
    assert message(ask(output, prompt=prompt, **client))[:2] == (content, reasoning)


def test_hidden_reasoning_hides_token_ids(ask: Ask) -> None:
    for shown in (True, False):
        status, body = ask(
            "<think>\nhm\n</think>\n\nHi", prompt=MAY_THINK, include_reasoning=shown, return_token_ids=True
        )
        assert status == 200
        assert (body["choices"][0]["token_ids"] is not None) == shown


def test_ids_of_calls_are_unique_and_repeatable(ask: Ask) -> None:
    def ids(request_id: str) -> list[str]:
        _, body = ask(f"{CALL}\n{CALL}", CALL, tools=TOOLS, request_id=request_id)
        return [call["id"] for choice in body["choices"] for call in choice["message"]["tool_calls"]]

    first = ids("req")
    assert first == ids("req")
    assert len({*first, *ids("other")}) == 6
    assert all(re.fullmatch(r"call_[0-9a-f]{24}", each) for each in first)


def test_ids_of_calls_differ_in_each_turn_of_a_conversation(ask: Ask) -> None:
    """A gateway may give all its requests one id."""

    def ids(prompt: str | None, *calls: str) -> list[str]:
        messages = [{"role": "assistant", "tool_calls": [{"id": name} for name in calls]}]
        _, body = ask(CALL, prompt=prompt, tools=TOOLS, messages=messages)
        return [call["id"] for call in body["choices"][0]["message"]["tool_calls"]]

    turns = [ids(prompt, *calls) for prompt in (None, "Hi", "Hi again") for calls in ((), ("a",), ("a", "b"))]
    assert len({*map(tuple, turns)}) == len(turns)
    assert ids("Hi", "a") == ids("Hi", "a")


def test_a_stop_string_ends_the_text_before_it_is_parsed(ask: Ask) -> None:
    assert message(ask(f"Hi END{CALL}", tools=TOOLS, stop=["END"])) == ("Hi ", None, [], "stop")


@pytest.mark.parametrize(
    "client",
    [
        {"tool_choice": "required"},
        {"tools": TOOLS, "tool_choice": "sometimes"},
        {"tools": TOOLS, "tool_choice": {"type": "function"}},
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}},
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "*"}}},
        {
            "tools": [{"type": "function", "function": {"name": "a" * 500}}],
            "tool_choice": {"type": "function", "function": {"name": "a" * 500}},
        },
    ],
)
def test_a_tool_choice_that_the_tools_do_not_allow_is_refused(ask: Ask, client: dict[str, Any]) -> None:
    status, body = ask("Hi", **client)
    assert (status, body["error"]["param"]) == (400, "chat_request.tool_choice")


def test_a_parser_requires_the_client_request(deploy: Deploy) -> None:
    endpoint = deploy("qwen3", {"DERENDER_TOOL_CALL_PARSER": "hermes", "DERENDER_REASONING_PARSER": "none"})
    choice = {"index": 0, "token_ids": [9707], "finish_reason": "stop"}
    status, body = endpoint.exchange(CHAT, {"generate_response": {"request_id": "r", "choices": [choice]}})
    assert (status, body["error"]["param"]) == (400, "chat_request")
