"""Recorded outputs parse as the suite `canitoolcall` expects: whole and in any chunks."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import pytest
from canitoolcall.checks import case_status
from canitoolcall.chunking import DEFAULT_STRATEGIES
from canitoolcall.results import Status

from .replay import DELTAS, Replay
from .vocabularies import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canitoolcall.chunking import ChunkStrategy
    from canitoolcall.fixtures import Fixture

    from .replay import Deltas

CONTRADICTED: Final = {
    "gemma4/vllm-text-before-call": (
        "whitespace before a call is kept in two other fixtures of the family, and its template puts none there"
    ),
}
"""Fixture → what contradicts it. It passes softly: it differs in whitespace around the text."""
CASES: Final = tuple(product(FIXTURES, DELTAS))
FEW: Final = tuple(each for each in DEFAULT_STRATEGIES if each.kind == "special" or each.seed == 1)
"""Chunks that end at special tokens, and chunks of random sizes. `test_splits.py` tries all ids one by one."""
cases = pytest.mark.parametrize(
    ("fixture", "deltas"), CASES, ids=[f"{fixture.id}/{deltas}" for fixture, deltas in CASES]
)


@pytest.fixture(scope="module")
def replay() -> Replay:
    """Return a replay that the tests of this module share."""
    return Replay()


def check(replay: Replay, fixture: Fixture, deltas: Deltas, strategies: Sequence[ChunkStrategy]) -> None:
    rows = replay.check(fixture, deltas, strategies)
    assert rows
    expected = Status.SOFT_PASS if fixture.id in CONTRADICTED else Status.PASS
    differing = [
        f"{row.check}, {row.strategy}: {row.status.value}: {row.detail}"
        for row in rows
        if row.status is not Status.PASS
    ]
    assert case_status(rows) is expected, "\n".join([repr(fixture.raw_output), *differing])


@cases
def test_outputs_parse_as_recorded(fixture: Fixture, deltas: Deltas, replay: Replay) -> None:
    check(replay, fixture, deltas, FEW)


@pytest.mark.long
@cases
def test_outputs_parse_as_recorded_in_all_chunks_of_the_suite(
    fixture: Fixture, deltas: Deltas, replay: Replay
) -> None:
    check(replay, fixture, deltas, DEFAULT_STRATEGIES)


def test_every_fixture_is_replayed() -> None:
    assert len(CASES) == 2 * 469
    assert {fixture.id for fixture in FIXTURES} >= CONTRADICTED.keys()
    assert [each.kind for each in FEW] == ["special", "rand"]
