"""Derendering parts, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from derender.batch import BatchError
from derender.batch.stores.store import Unavailable
from tests.batch.bucket import BUCKET, Bucket
from tests.batch.inputs import lines
from tests.batch.jobs import conclude, derender, make_worker

from .events import PLAN, run_event

if TYPE_CHECKING:
    from derender.telemetry.tally import Tally


def test_a_part_is_derendered_in_pieces(bucket: Bucket, pieces: int) -> None:
    bucket.put("in.jsonl", b"".join([*lines(6), b"x\n", *lines(2)]))
    planned = run_event(bucket, PLAN)
    tallies: list[Tally] = []
    assert run_event(bucket, {"step": "derender", "job": planned["job"], "start": 0}, tallies=tallies) == {
        "next": None
    }
    second, third = (sum(map(len, [*lines(6), b"x\n", *lines(2)][:number])) for number in (pieces, 2 * pieces))
    assert sorted(bucket.objects()) == [
        f"out/job-1/errors/{second:015d}.jsonl",
        *(f"out/job-1/records/{start:015d}.json" for start in (0, second, third)),
        *(f"out/job-1/results/{start:015d}.jsonl" for start in (0, second, third)),
    ]
    assert [tally.requests for tally in tallies] == [4, 4, 1]
    assert sum((tally.completed for tally in tallies), 0) == 8
    assert [tally.failed for tally in tallies] == [{}, {"invalid_json_line": 1}, {}]


def test_a_piece_ends_with_the_line_that_fills_it(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    (length,) = {len(each) for each in lines(1)}
    monkeypatch.setattr("derender.batch.steps.derender.MAX_BYTES", 2 * length + 1)
    job = bucket.job(b"".join(lines(9)))
    # What is written is more than what was read.
    assert {tally.requests for tally in derender(make_worker(bucket.store), job)} < {1, 2, 3}


def test_a_late_part_tells_where_to_go_on(bucket: Bucket, pieces: int) -> None:
    content = b"".join(lines(11))
    job = bucket.job(content)
    derender(make_worker(bucket.store), job)
    expected = bucket.objects()
    bucket.client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in expected]})
    event = {"step": "derender", "job": run_event(bucket, PLAN)["job"], "start": 0}
    (length,) = {len(each) for each in lines(1)}
    for reached in (pieces * length, 2 * pieces * length, None):
        tallies: list[Tally] = []
        assert run_event(bucket, event, is_late=True, tallies=tallies) == {"next": reached}
        assert len(tallies) == 1
        event["start"] = reached
    assert bucket.objects() == expected


def test_a_repeated_step_writes_nothing(bucket: Bucket, pieces: int) -> None:
    job = bucket.job(b"".join(lines(pieces * 3)))
    derender(make_worker(bucket.store), job)
    bucket.calls.clear()
    assert derender(make_worker(bucket.store), job) == []
    assert "PutObject" not in [name for name, _ in bucket.calls]


@pytest.mark.usefixtures("pieces")
def test_a_step_without_its_records_writes_the_same_again(bucket: Bucket) -> None:
    job = bucket.job(b"".join([*lines(6), b"x\n", *lines(2)]))
    derender(make_worker(bucket.store), job)
    expected = bucket.objects()
    for key in expected:
        if "/records/" in key:
            bucket.client.delete_object(Bucket=BUCKET, Key=key)
    derender(make_worker(bucket.store), job)
    assert bucket.objects() == expected


@pytest.mark.usefixtures("pieces")
def test_pieces_of_another_job_are_overwritten(bucket: Bucket) -> None:
    content = b"".join(lines(9))
    derender(make_worker(bucket.store), bucket.job(content + b"x\n"))
    job = bucket.job(content)
    derender(make_worker(bucket.store), job)
    made = conclude(bucket.store, job)
    assert made.manifest["counts"] == {"total": 9, "completed": 9, "failed": 0}


def test_an_input_that_was_replaced_fails_the_job(bucket: Bucket) -> None:
    bucket.put("in.jsonl", lines(1)[0])
    planned = run_event(bucket, PLAN)
    bucket.put("in.jsonl", lines(2)[1])
    with pytest.raises(BatchError, match=r"in\.jsonl was replaced"):
        run_event(bucket, {"step": "derender", "job": planned["job"], "start": 0})


@pytest.mark.parametrize("operation", ["ListObjectsV2", "GetObject", "PutObject"])
@pytest.mark.parametrize("answer", [(503, "SlowDown"), (503, "ServiceUnavailable"), (500, "InternalError")])
def test_a_busy_s3_can_be_retried(bucket: Bucket, operation: str, answer: tuple[int, str]) -> None:
    bucket.put("in.jsonl", lines(1)[0])
    event = {"step": "derender", "job": run_event(bucket, PLAN)["job"], "start": 0}
    bucket.on_call = lambda name, _: answer if name == operation else None
    with pytest.raises(Unavailable):
        run_event(bucket, event)
    assert not [key for key in bucket.objects() if "/records/" in key]
    bucket.on_call = lambda _name, _asked: None
    assert run_event(bucket, event) == {"next": None}


def test_a_forbidden_output_fails_the_job(bucket: Bucket) -> None:
    bucket.put("in.jsonl", lines(1)[0])
    event = {"step": "derender", "job": run_event(bucket, PLAN)["job"], "start": 0}
    bucket.on_call = lambda name, _: (403, "AccessDenied") if name == "PutObject" else None
    with pytest.raises(BatchError, match="may not be read or written"):
        run_event(bucket, event)
