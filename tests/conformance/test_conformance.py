"""Recorded outputs parse as the suite `canitoolcall` says they are to: whole and in any chunks."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import pytest
from canitoolcall.checks import case_status
from canitoolcall.results import Status

from .replay import DELTAS, Replay
from .vocabularies import FIXTURES

if TYPE_CHECKING:
    from canitoolcall.fixtures import Fixture

    from .replay import Deltas

CONTRADICTED: Final = {
    "gemma4/vllm-text-before-call": (
        "whitespace before a call is kept in two other fixtures of the family, and its template puts none there"
    ),
}
"""Fixture → what contradicts it. It passes softly: but for whitespace around the text."""
CASES: Final = tuple(product(FIXTURES, DELTAS))


@pytest.fixture(scope="module")
def replay() -> Replay:
    """Clients and parsers, made once."""
    return Replay()


@pytest.mark.parametrize(
    ("fixture", "deltas"), CASES, ids=[f"{fixture.id}/{deltas}" for fixture, deltas in CASES]
)
def test_parses_as_recorded(fixture: Fixture, deltas: Deltas, replay: Replay) -> None:
    rows = replay.check(fixture, deltas)
    assert rows
    expected = Status.SOFT_PASS if fixture.id in CONTRADICTED else Status.PASS
    differing = [
        f"{row.check}, {row.strategy}: {row.status.value}: {row.detail}"
        for row in rows
        if row.status is not Status.PASS
    ]
    assert case_status(rows) is expected, "\n".join([repr(fixture.raw_output), *differing])


def test_every_fixture_is_replayed() -> None:
    assert len(CASES) == 2 * 469
    assert {fixture.id for fixture in FIXTURES} >= CONTRADICTED.keys()
