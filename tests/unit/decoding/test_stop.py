"""The stop rule: stop tokens, stop strings, and the reported reason."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.answers.choices import stop_rule
from derender.decoding.stop import StopRule, cut_stop_string
from derender.protocol.client import CompletionRequest
from tests.support.vocabularies import B, manifest

EOS, OTHER, PAD, HELLO = int(B.EOS), int(B.OTHER_EOS), int(B.PAD), int(B.HELLO)
ABOUT: Final = manifest(eos_token_id=EOS, stop_token_ids=(EOS, OTHER), special_token_ids=(EOS, OTHER, PAD))
RULE: Final = stop_rule(CompletionRequest(), ABOUT, reported=True)
HELLO_WORLD: Final = [HELLO, int(B.COMMA), int(B.WORLD), int(B.BANG)]
"""Decodes to "Hello, world!"."""


@pytest.mark.parametrize(
    ("last", "finish", "reason", "asked", "dropped", "reported"),
    [
        pytest.param(HELLO, "stop", HELLO, {}, True, HELLO, id="reported id"),
        pytest.param(PAD, "stop", PAD, {"ignore_eos": True}, True, PAD, id="reported id, EOS ignored"),
        pytest.param(OTHER, "stop", OTHER, {}, True, OTHER, id="reported other EOS"),
        pytest.param(EOS, "stop", EOS, {}, True, None, id="reported primary EOS"),
        pytest.param(
            EOS, "stop", EOS, {"stop_token_ids": {EOS}}, True, None, id="reported primary EOS, requested too"
        ),
        pytest.param(
            EOS,
            "stop",
            EOS,
            {"ignore_eos": True, "stop_token_ids": {EOS}},
            True,
            EOS,
            id="reported, ignored, but requested",
        ),
        pytest.param(HELLO, "stop", OTHER, {}, False, OTHER, id="reported id that is not the last"),
        pytest.param(HELLO, "stop", EOS, {}, False, None, id="reported primary EOS that is not the last"),
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
def test_the_stop_token_is_dropped(
    last: int,
    finish: str | None,
    reason: int | str | None,
    asked: dict[str, Any],
    dropped: bool,
    reported: int | str | None,
    include: bool,
) -> None:
    asked = {name: list(value) if name == "stop_token_ids" else value for name, value in asked.items()}
    client = CompletionRequest(include_stop_str_in_output=include, **asked)
    rule = stop_rule(client, ABOUT, reported=True)
    token_ids, found = rule.drop_stop_token([65, 66, last], finish, reason)
    assert list(token_ids) == ([65, 66] if dropped and not include else [65, 66, last])
    assert found == reported


def test_only_the_last_id_can_be_the_stop_token() -> None:
    assert RULE.drop_stop_token([EOS, 65], "stop", None) == ([EOS, 65], None)
    assert RULE.drop_stop_token([EOS, EOS], "stop", None) == ([EOS], None)


@pytest.mark.parametrize(("reason", "reported"), [(None, None), (OTHER, OTHER), (EOS, None)])
def test_without_ids_there_is_no_stop_token(reason: int | None, reported: int | None) -> None:
    assert RULE.drop_stop_token([], "stop", reason) == ([], reported)


def test_a_model_without_eos_has_no_stop_token() -> None:
    about = manifest(eos_token_id=None, stop_token_ids=())
    rule = stop_rule(CompletionRequest(), about, reported=True)
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
def test_stop_strings_are_searched_for_if_one_may_have_ended_the_output(
    finish: str | None, reason: int | str | None, expected: tuple[str, ...]
) -> None:
    assert tuple(StopRule(("a", "b")).strings_to_find(finish, reason)) == expected


@pytest.mark.parametrize(
    ("reason", "expected", "not_stopped"),
    [
        (None, ("a", "b"), ("a", "b")),
        (7, ("a", "b"), ("a", "b")),
        ("", ("a", "b"), ("a", "b")),
        ("a", ("a", "b"), ()),
        ("END", ("a", "b", "END"), ("a", "b")),
    ],
)
def test_all_stop_strings_are_searched_for_unless_the_generate_server_says_that_none_stopped_it(
    reason: int | str | None, expected: tuple[str, ...], not_stopped: tuple[str, ...]
) -> None:
    rule = StopRule(("a", "b"), reported=False)
    for finish in ("stop", None):
        assert tuple(rule.strings_to_find(finish, reason)) == expected
    for finish in ("length", "abort", "repetition"):
        assert tuple(rule.strings_to_find(finish, reason)) == not_stopped


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
def test_text_is_cut_at_the_stop_string_that_is_complete_first(
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
def test_stop_strings_are_found_as_if_the_text_came_by_character(
    text: str, exempt: int, strings: list[str], include: bool
) -> None:
    expected: tuple[str, str | None] = (text, None)
    for end in range(exempt + 1, len(text) + 1):
        ended = [string for string in strings if text[:end].endswith(string)]
        if ended:
            expected = (text[:end] if include else text[: end - len(ended[0])], ended[0])
            break
    assert cut_stop_string(text, exempt, strings, include=include) == expected
