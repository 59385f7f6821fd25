"""Where an output ends: stop tokens, stop strings, and the reason that is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.answers.choices import stop_rule
from derender.decoding.stop import StopRule, cut_stop_string
from derender.protocol.client import ClientRequest
from tests.support.api_client import generated
from tests.support.vocabularies import B, manifest

if TYPE_CHECKING:
    from tests.support.api_client import Client

EOS, OTHER, PAD, HELLO = int(B.EOS), int(B.OTHER_EOS), int(B.PAD), int(B.HELLO)
ABOUT: Final = manifest(eos_token_id=EOS, stop_token_ids=(EOS, OTHER), special_token_ids=(EOS, OTHER, PAD))
RULE: Final = stop_rule(ClientRequest(), ABOUT, reported=True)
HELLO_WORLD: Final = [HELLO, int(B.COMMA), int(B.WORLD), int(B.BANG)]
"""Decodes to "Hello, world!"."""


@pytest.mark.parametrize(
    ("last", "finish", "reason", "asked", "dropped", "reported"),
    [
        pytest.param(HELLO, "stop", HELLO, {}, True, HELLO, id="reported id"),
        pytest.param(PAD, "stop", PAD, {"ignore_eos": True}, True, PAD, id="reported id, EOS ignored"),
        pytest.param(EOS, "stop", EOS, {}, True, EOS, id="reported primary EOS"),
        pytest.param(HELLO, "stop", EOS, {}, False, EOS, id="reported id that is not the last"),
        pytest.param(0, "stop", 0, {}, True, 0, id="reported id 0"),
        pytest.param(EOS, "stop", None, {}, True, None, id="primary EOS"),
        pytest.param(OTHER, "stop", None, {}, True, OTHER, id="other EOS"),
        pytest.param(HELLO, "stop", None, {"stop_token_ids": {HELLO}}, True, HELLO, id="requested"),
        pytest.param(0, "stop", None, {"stop_token_ids": {0}}, True, 0, id="requested id 0"),
        pytest.param(HELLO, "stop", None, {"stop_token_ids": {7}}, False, None, id="another was requested"),
        pytest.param(HELLO, "stop", None, {}, False, None, id="no stop token"),
        pytest.param(PAD, "stop", None, {}, False, None, id="special, but no stop token"),
        pytest.param(EOS, "stop", None, {"stop_token_ids": {EOS}}, True, None, id="primary EOS, requested too"),
        pytest.param(EOS, "stop", None, {"ignore_eos": True}, False, None, id="primary EOS ignored"),
        pytest.param(OTHER, "stop", None, {"ignore_eos": True}, False, None, id="other EOS ignored"),
        pytest.param(
            EOS,
            "stop",
            None,
            {"ignore_eos": True, "stop_token_ids": {EOS}},
            True,
            EOS,
            id="ignored, but requested",
        ),
        pytest.param(EOS, "length", None, {}, False, None, id="EOS at the length limit"),
        pytest.param(
            HELLO, "length", None, {"stop_token_ids": {HELLO}}, False, None, id="requested, at the limit"
        ),
        pytest.param(EOS, "abort", None, {}, False, None, id="aborted"),
        pytest.param(EOS, None, None, {}, False, None, id="not finished"),
        pytest.param(EOS, "stop", "!", {}, False, "!", id="a string stopped it"),
    ],
)
@pytest.mark.parametrize("include", [False, True])
def test_the_token_that_stopped_is_left_out(
    last: int,
    finish: str | None,
    reason: int | str | None,
    asked: dict[str, Any],
    dropped: bool,
    reported: int | str | None,
    include: bool,
) -> None:
    asked = {name: list(value) if name == "stop_token_ids" else value for name, value in asked.items()}
    client = ClientRequest(include_stop_str_in_output=include, **asked)
    rule = stop_rule(client, ABOUT, reported=True)
    token_ids, found = rule.drop_stop_token([65, 66, last], finish, reason)
    assert list(token_ids) == ([65, 66] if dropped and not include else [65, 66, last])
    assert found == reported


def test_only_the_last_id_can_be_the_stop_token() -> None:
    assert RULE.drop_stop_token([EOS, 65], "stop", None) == ([EOS, 65], None)
    assert RULE.drop_stop_token([EOS, EOS], "stop", None) == ([EOS], None)


def test_no_ids_have_no_stop_token() -> None:
    assert RULE.drop_stop_token([], "stop", None) == ([], None)


def test_a_model_without_eos_stops_at_none() -> None:
    about = manifest(eos_token_id=None, stop_token_ids=())
    rule = stop_rule(ClientRequest(), about, reported=True)
    assert rule.drop_stop_token([EOS], "stop", None) == ([EOS], None)


@pytest.mark.parametrize(
    ("finish", "reason", "expected"),
    [
        ("stop", "END", ("END",)),
        ("stop", None, ("a", "b")),
        ("stop", 7, ()),
        ("stop", 0, ()),
        ("length", None, ()),
        ("abort", None, ()),
        (None, None, ()),
    ],
)
def test_stop_strings_are_looked_for_where_one_may_have_stopped_it(
    finish: str | None, reason: int | str | None, expected: tuple[str, ...]
) -> None:
    assert tuple(StopRule(("a", "b")).strings_to_find(finish, reason)) == expected


@pytest.mark.parametrize("finish", ["stop", "length", "abort", None])
@pytest.mark.parametrize(
    ("reason", "expected"),
    [(None, ("a", "b")), (7, ("a", "b")), ("a", ("a", "b")), ("END", ("a", "b", "END")), ("", ("a", "b"))],
)
def test_all_stop_strings_are_looked_for_if_the_generate_server_reports_none(
    finish: str | None, reason: int | str | None, expected: tuple[str, ...]
) -> None:
    rule = StopRule(("a", "b"), reported=False)
    assert tuple(rule.strings_to_find(finish, reason)) == expected


@pytest.mark.parametrize(
    ("text", "exempt", "strings", "excluded", "included", "found"),
    [
        pytest.param("one END two", 0, ["END"], "one ", "one END", "END", id="cut"),
        pytest.param("one two", 0, ["END"], "one two", "one two", None, id="absent"),
        pytest.param("one", 0, [], "one", "one", None, id="none given"),
        pytest.param("", 0, ["END"], "", "", None, id="no text"),
        pytest.param("END", 0, ["END"], "", "END", "END", id="nothing else"),
        pytest.param("END END", 0, ["END"], "", "END", "END", id="the first of two"),
        pytest.param("a b c", 0, ["c", "b"], "a ", "a b", "b", id="the first complete, not the first listed"),
        pytest.param("abcd", 0, ["abcd", "bc"], "a", "abc", "bc", id="complete first, though it starts later"),
        pytest.param("abcd", 0, ["bcd", "abcd"], "a", "abcd", "bcd", id="together: the first listed"),
        pytest.param("abcd", 0, ["abcd", "bcd"], "", "abcd", "abcd", id="together: the first listed, longer"),
        pytest.param("aaa", 0, ["aa"], "", "aa", "aa", id="overlapping itself"),
        pytest.param("xx END END", 6, ["END"], "xx END ", "xx END END", "END", id="too early, then again"),
        pytest.param("xx END", 6, ["END"], "xx END", "xx END", None, id="ends with the exempt text"),
        pytest.param("xx END", 5, ["END"], "xx ", "xx END", "END", id="ends past the exempt text"),
        pytest.param("END", 1, ["END"], "", "END", "END", id="begins in the exempt text"),
        pytest.param("END", 9, ["END"], "END", "END", None, id="all exempt"),
        pytest.param("東京END", 2, ["END"], "東京", "東京END", "END", id="characters, not bytes"),
    ],
)
def test_a_text_ends_at_the_stop_string_that_is_complete_first(
    text: str, exempt: int, strings: list[str], excluded: str, included: str, found: str | None
) -> None:
    assert cut_stop_string(text, exempt, strings, include=False) == (excluded, found)
    assert cut_stop_string(text, exempt, strings, include=True) == (included, found)


@given(
    text=st.text("ab", max_size=12),
    exempt=st.integers(0, 14),
    strings=st.lists(st.text("ab", min_size=1, max_size=4), max_size=4),
    include=st.booleans(),
)
def test_stop_strings_are_found_as_if_the_text_came_one_character_at_a_time(
    text: str, exempt: int, strings: list[str], include: bool
) -> None:
    expected: tuple[str, str | None] = (text, None)
    for end in range(exempt + 1, len(text) + 1):
        ended = [string for string in strings if text[:end].endswith(string)]
        if ended:
            expected = (text[:end] if include else text[: end - len(ended[0])], ended[0])
            break
    assert cut_stop_string(text, exempt, strings, include=include) == expected


@pytest.mark.parametrize(
    ("token_ids", "choice", "asked", "text", "reason"),
    [
        pytest.param([*HELLO_WORLD, EOS], {}, {}, "Hello, world!", None, id="primary EOS"),
        pytest.param([*HELLO_WORLD, OTHER], {}, {}, "Hello, world!", OTHER, id="other EOS"),
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
def test_outputs_end_where_they_were_stopped(
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


def test_an_absent_finish_reason_is_stop(client: Client) -> None:
    response = {"request_id": "gen-1", "choices": [{"index": 0, "token_ids": [HELLO, EOS]}]}
    choice = client.chat({"generate_response": response}).choice
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello", "stop")
