"""Workers that die at any time, come late, or work at the same time: the outcome is the same."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from derender.batch.steps.derender import derender_part
from derender.batch.steps.finish import finish_job
from tests.batch.bucket import BUCKET, Bucket, Death
from tests.batch.inputs import line, lines
from tests.batch.jobs import Memory, conclude, derender, make_job, make_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from derender.batch.job import Job
    from derender.batch.stores.store import Store
    from derender.telemetry.tally import Tally


MIXED = [*lines(5), b"x\n", b"\n", *lines(3), line("line-00004"), *lines(9)[5:], line(7), line("line-00008")]
"""Lines 0 to 8, some of them twice, and some bad ones."""


def die_at_each_call(place: Bucket | Memory, do: Callable[[], object]) -> int:
    """Repeat something that dies one call later each time, and return how often it died."""
    for deaths in count():
        calls = count()

        def die(*_: object, calls: Iterator[int] = calls, deaths: int = deaths) -> None:
            if next(calls) == deaths:
                raise Death

        place.on_call = die
        try:
            do()
        except Death:
            continue
        finally:
            place.on_call = lambda *_: None
        return deaths
    raise AssertionError


def derender_all(store: Store, job: Job) -> None:
    derender(make_worker(store), job)


def finish_all(store: Store, job: Job) -> None:
    finish_job(store, job)


@pytest.mark.usefixtures("pieces")
def test_a_worker_may_die_again_and_again_on_s3(bucket: Bucket) -> None:
    job = bucket.job(b"".join(MIXED))
    derender(make_worker(bucket.store), job)
    made = conclude(bucket.store, job)
    expected = bucket.objects()
    for key in expected:
        bucket.client.delete_object(Bucket=BUCKET, Key=key)

    assert die_at_each_call(bucket, lambda: derender(make_worker(bucket.store), job)) > 10
    assert die_at_each_call(bucket, lambda: finish_job(bucket.store, job)) > 10
    assert bucket.objects() == expected
    assert conclude(bucket.store, job) == made
    assert bucket.objects() == expected


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("part_bytes", [1 << 20, 1000])
def test_a_worker_may_die_again_and_again(part_bytes: int) -> None:
    undisturbed = Memory(**{"bucket/in.jsonl": b"".join(MIXED)})
    store = Memory(**undisturbed.objects)
    job = make_job(store, "bucket/in.jsonl", part_bytes=part_bytes)
    derender_all(undisturbed, job)
    finish_all(undisturbed, job)
    assert die_at_each_call(store, lambda: derender_all(store, job)) > 10
    assert die_at_each_call(store, lambda: finish_all(store, job)) > 10
    assert store.objects == undisturbed.objects


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("step", [derender_all, finish_all])
def test_a_worker_may_die_once_at_any_call(step: Callable[[Store, Job], object]) -> None:
    before = Memory(**{"bucket/in.jsonl": b"".join(MIXED)})
    job = make_job(before, "bucket/in.jsonl", part_bytes=1000)
    if step is finish_all:
        derender_all(before, job)
    undisturbed = Memory(**before.objects)
    step(undisturbed, job)
    for number in count():
        store, left = Memory(**before.objects), iter(range(number))

        def die_once(store: Memory = store, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                store.on_call = lambda: None
                raise Death

        store.on_call = die_once
        try:
            step(store, job)
        except Death:
            step(store, job)
            assert store.objects == undisturbed.objects
        else:
            assert number > 20
            break


def test_each_line_is_observed_once(pieces: int) -> None:
    store = Memory(**{"bucket/in.jsonl": b"".join(lines(5 * pieces))})
    job = make_job(store, "bucket/in.jsonl")
    tallies: list[Tally] = []

    def do() -> None:
        derender_part(make_worker(store), job, 0, is_late=lambda: False, observe=tallies.append)

    die_at_each_call(store, do)
    assert sum(tally.requests for tally in tallies) == 5 * pieces


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("late", [derender_all, finish_all])
def test_a_late_worker_changes_nothing(late: Callable[[Store, Job], object]) -> None:
    before = Memory(**{"bucket/in.jsonl": b"".join(MIXED)})
    job = make_job(before, "bucket/in.jsonl", part_bytes=1000)
    derender_all(before, job)
    undisturbed = Memory(**before.objects)
    finish_all(undisturbed, job)
    records = {name: content for name, content in before.objects.items() if "/records/" in name}
    for number in count():
        store, left = Memory(**before.objects), iter(range(number))

        def interfere(store: Memory = store, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                store.on_call = lambda: None
                if late is derender_all:
                    # A worker that saw no records writes everything again.
                    alone = Memory(**{"bucket/in.jsonl": store.objects["bucket/in.jsonl"]})
                    derender_all(alone, job)
                    assert alone.objects.keys() > records.keys()
                    store.objects.update(alone.objects)
                else:
                    finish_all(store, job)

        store.on_call = interfere
        finish_all(store, job)
        assert store.objects == undisturbed.objects
        late(store, job)
        assert store.objects == undisturbed.objects
        if next(left, None) is not None:
            assert number > 20
            break
