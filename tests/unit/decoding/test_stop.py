"""The stop rule: stop tokens, stop strings, and the reported reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.answers.choices import stop_rule
from derender.decoding.stop import StopRule
from derender.protocol.client import CompletionRequest
from tests.support.vocabularies import B, manifest

if TYPE_CHECKING:
    from derender.decoding.stop import StopReason

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


def to_find(rule: StopRule, finish: str | None, reason: StopReason) -> tuple[str, ...]:
    return tuple(string for each in rule.strings_to_find(finish, reason) for string in each.strings)


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
    assert to_find(StopRule(("a", "b")), finish, reason) == expected


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
        assert to_find(rule, finish, reason) == expected
    for finish in ("length", "abort", "repetition"):
        assert to_find(rule, finish, reason) == not_stopped
