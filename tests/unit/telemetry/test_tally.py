"""Tallies add up."""

from __future__ import annotations

from itertools import permutations

import msgspec

from derender.telemetry.tally import NOTHING, Tally


def test_tallies_add_up() -> None:
    first = Tally(requests=3, failed={"b": 1, "a": 1}, prompt_tokens=1, choices=2, outcomes={"text": 2})
    second = Tally(
        requests=2, failed={"a": 1}, completion_tokens=5, candidates=6, outcomes={"cut": 1, "text": 1}
    )
    assert first + second == Tally(
        requests=5,
        failed={"a": 2, "b": 1},
        prompt_tokens=1,
        completion_tokens=5,
        choices=2,
        candidates=6,
        outcomes={"text": 3, "cut": 1},
    )
    assert first + NOTHING == first
    assert sum([first, second, second], NOTHING) == first + second + second


def test_a_sum_is_written_the_same_whatever_the_order() -> None:
    tallies = [Tally(failed={name: 1}) for name in "cab"]
    written = {msgspec.json.encode(sum(ordered, NOTHING)) for ordered in permutations(tallies)}
    assert written == {b'{"failed":{"a":1,"b":1,"c":1}}'}


def test_requests_that_did_not_fail_are_completed() -> None:
    assert Tally(requests=5, failed={"a": 2, "b": 1}).completed == 2
