"""Complete outputs end at the stop token or stop string that ended them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.api_client import generated
from tests.support.vocabularies import B

if TYPE_CHECKING:
    from tests.support.api_client import Client


EOS, OTHER, PAD, HELLO = int(B.EOS), int(B.OTHER_EOS), int(B.PAD), int(B.HELLO)
HELLO_WORLD: Final = [HELLO, int(B.COMMA), int(B.WORLD), int(B.BANG)]
"""Decodes to "Hello, world!"."""


@pytest.mark.parametrize(
    ("token_ids", "choice", "asked", "text", "reason"),
    [
        pytest.param([*HELLO_WORLD, EOS], {}, {}, "Hello, world!", None, id="primary EOS"),
        pytest.param([*HELLO_WORLD, OTHER], {}, {}, "Hello, world!", OTHER, id="other EOS"),
        pytest.param(
            [*HELLO_WORLD, EOS], {"stop_reason": EOS}, {}, "Hello, world!", None, id="reported primary EOS"
        ),
        pytest.param(
            HELLO_WORLD, {"stop_reason": int(B.BANG)}, {}, "Hello, world", int(B.BANG), id="reported id"
        ),
        pytest.param(
            HELLO_WORLD, {}, {"stop_token_ids": [int(B.BANG)]}, "Hello, world", int(B.BANG), id="requested id"
        ),
        pytest.param(
            HELLO_WORLD,
            {},
            {"stop_token_ids": [int(B.BANG)], "include_stop_str_in_output": True},
            "Hello, world!",
            int(B.BANG),
            id="requested id, kept",
        ),
        pytest.param(
            HELLO_WORLD,
            {"finish_reason": "length"},
            {"stop_token_ids": [int(B.BANG)], "stop": ["lo"]},
            "Hello, world!",
            None,
            id="not stopped",
        ),
        pytest.param(
            [*HELLO_WORLD, EOS],
            {},
            {"include_stop_str_in_output": True, "skip_special_tokens": False},
            "Hello, world!<|end|>",
            None,
            id="EOS kept and shown",
        ),
        pytest.param(
            [*HELLO_WORLD, EOS],
            {},
            {"ignore_eos": True, "skip_special_tokens": False},
            "Hello, world!<|end|>",
            None,
            id="EOS ignored and shown",
        ),
        pytest.param([*HELLO_WORLD, EOS], {"stop_reason": "llo"}, {}, "He", "llo", id="reported string"),
        pytest.param(
            HELLO_WORLD,
            {"stop_reason": "wor"},
            {"stop": ["llo", "wor"]},
            "Hello, ",
            "wor",
            id="reported, not first",
        ),
        pytest.param(
            HELLO_WORLD, {"stop_reason": "absent"}, {}, "Hello, world!", "absent", id="reported, not there"
        ),
        pytest.param(HELLO_WORLD, {}, {"stop": "lo,"}, "Hel", "lo,", id="over two tokens"),
        pytest.param(HELLO_WORLD, {}, {"stop": ["o, world"]}, "Hell", "o, world", id="over three tokens"),
        pytest.param(
            HELLO_WORLD,
            {},
            {"stop": ["lo,"], "include_stop_str_in_output": True},
            "Hello,",
            "lo,",
            id="string kept",
        ),
        pytest.param(HELLO_WORLD, {}, {"stop": ["world", "lo,"]}, "Hel", "lo,", id="the first complete"),
        pytest.param(HELLO_WORLD, {}, {"stop": ["lo,"], "min_tokens": 1}, "Hel", "lo,", id="ends past 1 token"),
        pytest.param(
            HELLO_WORLD,
            {},
            {"stop": ["lo,"], "min_tokens": 2},
            "Hello, world!",
            None,
            id="ends within 2 tokens",
        ),
        pytest.param(
            HELLO_WORLD, {}, {"stop": ["!"], "min_tokens": 3}, "Hello, world", "!", id="ends past 3 tokens"
        ),
        pytest.param(
            HELLO_WORLD,
            {},
            {"stop": ["!"], "min_tokens": 99},
            "Hello, world!",
            None,
            id="fewer tokens than the least",
        ),
        pytest.param(
            [*HELLO_WORLD, *HELLO_WORLD],
            {},
            {"stop": ["lo,"], "min_tokens": 4},
            "Hello, world!Hel",
            "lo,",
            id="too early, then again",
        ),
        pytest.param(
            [0xE2, 0x88, 0x9E, HELLO],
            {},
            {"stop": ["∞"], "min_tokens": 2},
            "",
            "∞",
            id="ends past 2 of its 3 tokens",
        ),
        pytest.param(
            [0xE2, 0x88, 0x9E, HELLO],
            {},
            {"stop": ["∞"], "min_tokens": 3},
            "∞Hello",
            None,
            id="ends within its 3",
        ),
        pytest.param(
            [PAD, HELLO, PAD], {}, {"stop": ["<|pad|>"]}, "Hello", None, id="skipped tokens have no text"
        ),
        pytest.param(
            [HELLO, PAD, HELLO],
            {},
            {"stop": ["<|pad|>"], "skip_special_tokens": False},
            "Hello",
            "<|pad|>",
            id="kept tokens have",
        ),
        pytest.param(
            [*HELLO_WORLD, EOS],
            {"finish_reason": None},
            {"skip_special_tokens": False},
            "Hello, world!<|end|>",
            None,
            id="null stops nothing",
        ),
    ],
)
def test_an_output_ends_at_what_stopped_it(
    client: Client,
    token_ids: list[int],
    choice: dict[str, Any],
    asked: dict[str, Any],
    text: str,
    reason: int | str | None,
) -> None:
    response = generated(token_ids, **choice)
    finish = choice.get("finish_reason", "stop")
    chat = client.chat({"generate_response": response, "chat_request": asked}).choice
    assert (chat["message"]["content"], chat["stop_reason"]) == (text, reason)
    assert chat["finish_reason"] == (finish or "stop")
    completion = client.completions({"generate_responses": [response], "completion_request": asked}).choice
    assert (completion["text"], completion["stop_reason"], completion["finish_reason"]) == (
        text,
        reason,
        finish,
    )


def test_an_absent_finish_reason_means_stop(client: Client) -> None:
    response = {"request_id": "gen-1", "choices": [{"index": 0, "token_ids": [HELLO, EOS]}]}
    choice = client.chat({"generate_response": response}).choice
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello", "stop")
