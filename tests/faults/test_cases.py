"""Outputs with faults become the messages that they can only mean, in whatever way they are delivered."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace

from tests.support.deliveries import DELIVERIES

from .cases import CASES, find_faults
from .known import KNOWN

if TYPE_CHECKING:
    from .cases import Case

WHOLE: Final = ("kimi_k3", "openai")
"""Tool-call parsers of whole messages."""
SPLITS: Final = 10
"""Ways in which each stream is split at random, after it was split into single ids."""

cases = pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            each,
            id=each.id,
            marks=[pytest.mark.xfail(raises=AssertionError, strict=True)] if each.id in KNOWN else [],
        )
        for each in CASES
    ],
)


@cases
def test_an_output_becomes_the_right_message(case: Case) -> None:
    answers = {delivery: case.answer(delivery) for delivery in case.right.deliveries}
    assert not {
        delivery: found
        for delivery, answer in answers.items()
        if (found := find_faults(case, delivery, answer))
    }
    for delivery in answers.keys() - {"whole"}:
        splits = random.Random(f"{case.id} {delivery}")
        for _ in range(SPLITS):
            sizes = [splits.choice((0, 1, 1, 2, 3, 5, 8, 21)) for _ in range(splits.randint(0, 40))]
            assert case.answer(delivery, sizes) == answers[delivery]
    if "complete" in answers:
        assert answers["complete"] == answers["whole"]


@pytest.mark.parametrize(
    "case", [pytest.param(each, id=each.id) for each in CASES if each.parsers[0] not in (None, *WHOLE)]
)
@pytest.mark.parametrize("request_fields", [{"tools": []}, {"tool_choice": "none"}])
def test_markup_is_as_written_if_no_calls_are_wanted(case: Case, request_fields: dict[str, Any]) -> None:
    unwanted = replace(
        case, parsers=(case.parsers[0], None), request={**case.request, **request_fields}, prompt=None
    )
    for delivery in DELIVERIES:
        answer = unwanted.answer(delivery)
        assert (answer.content, answer.calls) == (case.output, [])


def test_known_faults_are_of_cases() -> None:
    assert not KNOWN - {case.id for case in CASES}
