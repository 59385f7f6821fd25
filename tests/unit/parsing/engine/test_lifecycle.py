"""The table of what becomes of calls' markup."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from derender.parsing.engine.lifecycle import LIFECYCLE, TRANSITIONS, Effect, Status, Step

ENDS: Final = (Step.CLOSE, Step.END)


def test_a_status_and_a_step_have_one_transition() -> None:
    rows = Counter((before, row.step) for row in LIFECYCLE for before in row.before)
    assert set(rows.values()) == {1}
    assert rows.keys() == TRANSITIONS.keys()


@pytest.mark.parametrize("status", Status)
def test_markup_always_ends(status: Status) -> None:
    assert TRANSITIONS[status, Step.CLOSE][1] is None


@pytest.mark.parametrize(("status", "step"), TRANSITIONS)
def test_only_ends_end_it(status: Status, step: Step) -> None:
    assert (TRANSITIONS[status, step][1] is None) == (step in ENDS)


@pytest.mark.parametrize("status", [Status.SKIPPED, Status.TEXT])
def test_what_is_skipped_or_text_stays_so(status: Status) -> None:
    assert not any((status, step) in TRANSITIONS for step in Step if step not in ENDS)


def test_every_status_can_be_reached() -> None:
    begins = {Status.BUFFERED, Status.TEXT}
    assert begins | {row.after for row in LIFECYCLE} == {*Status, None}


def test_text_goes_back_if_it_is_no_call() -> None:
    restored = {key for key, (effect, _) in TRANSITIONS.items() if effect is Effect.RESTORE}
    assert restored == {
        (Status.BUFFERED, Step.REJECT),
        (Status.STREAMED, Step.REJECT),
        (Status.WAITING, Step.REJECT),
    }
