"""Messages of Kimi K3."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.parsers import Message

from ..support import PARIS, TIME, check_both, marked_parsers


def element(name: str, inside: str, attributes: str = "") -> str:
    return f"<|open|>{name}{attributes}<|sep|>{inside}<|close|>{name}<|sep|>"


def k3_call(name: str, **arguments: tuple[str, str]) -> str:
    written = [
        element("argument", value, f' key="{key}" type="{kind}"') for key, (kind, value) in arguments.items()
    ]
    return element("call", "".join(written), f' tool="{name}" index="1"')


K3_PARIS: Final = k3_call("get_weather", city=("string", "Paris"))
K3_DONE: Final = "<|close|>message<|sep|><|end_of_msg|>"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(
            element("think", "hm") + element("response", "Hi") + K3_DONE, Message("Hi", "hm"), id="an answer"
        ),
        pytest.param(
            "<|open|>think<|sep|>hm<|open|>think<|sep|>so<|close|>think<|sep|>"
            "<|open|>response<|sep|>Hi<|open|>response<|sep|>Bye",
            Message("Hi\nBye", "hm\nso"),
            id="elements without an end",
        ),
        pytest.param(
            f"hm<|close|>think<|sep|>{element('response', 'Hi')}", Message("Hi", "hm"), id="reasoning is open"
        ),
        pytest.param(
            element("think", "hm") + element("response", "Hi") + element("tools", K3_PARIS) + K3_DONE,
            Message("Hi", "hm", [PARIS]),
            id="an answer and a call",
        ),
        pytest.param(
            element("think", "") + element("tools", K3_PARIS + k3_call("get_time")),
            Message(calls=[PARIS, TIME]),
            id="two calls",
        ),
        pytest.param(
            element("think", "")
            + element(
                "tools",
                k3_call("f", a=("string", "5"), b=("number", "5"), c=("object", '{"x":1}'), d=("null", "null")),
            ),
            Message(calls=[("f", '{"a": "5", "b": 5, "c": {"x":1}, "d": null}')]),
            id="types",
        ),
        pytest.param(
            element("think", "") + element("tools", K3_PARIS.replace("city", "a&quot;&amp;b")),
            Message(calls=[("get_weather", r'{"a\"&b": "Paris"}')]),
            id="a key with entities",
        ),
        pytest.param("hm", Message(reasoning="hm"), id="reasoning cut"),
        pytest.param("<|open|>think<|sep|>hm", Message(reasoning="hm"), id="reasoning cut in its element"),
    ],
)
def test_messages_are_parsed(output: str, expected: Message) -> None:
    check_both(marked_parsers("kimi_k3", "kimi_k3"), output, expected)


def test_an_output_begins_with_the_answer_if_thinking_is_off() -> None:
    output = f"Hi<|close|>response<|sep|>{element('tools', K3_PARIS)}"
    off = {"chat_template_kwargs": {"thinking": False}}
    check_both(marked_parsers("kimi_k3", "kimi_k3"), output, Message("Hi", "", [PARIS]), **off)
