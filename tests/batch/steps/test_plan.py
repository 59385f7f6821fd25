"""Planning a job, and invalid events."""

from __future__ import annotations

import json

import pytest

from derender.batch import BatchError
from derender.batch.job import Job
from derender.batch.steps.plan import MAX_PARTS, MIN_PART_BYTES, plan_job
from derender.batch.stores.store import Stat
from tests.batch.bucket import BUCKET, Bucket
from tests.batch.jobs import CREATED, Memory

from .events import INPUT, OUTPUT, PLAN, run_event


def test_a_job_is_planned(bucket: Bucket) -> None:
    bucket.put("in.jsonl", b"x" * (MIN_PART_BYTES * 5 // 2))
    planned = run_event(bucket, PLAN)
    assert planned["parts"] == [0, MIN_PART_BYTES, 2 * MIN_PART_BYTES]
    assert planned["job"] == {
        "input": INPUT,
        "output": f"{OUTPUT}job-1/",
        "id": "job-1",
        "created": CREATED,
        "etag": bucket.store.stat(INPUT).etag,
        "size": MIN_PART_BYTES * 5 // 2,
        "part_bytes": MIN_PART_BYTES,
    }


def test_an_empty_input_has_no_parts(bucket: Bucket) -> None:
    bucket.put("in.jsonl", b"")
    assert run_event(bucket, PLAN)["parts"] == []


@pytest.mark.parametrize("output", [OUTPUT, OUTPUT.rstrip("/"), f"{OUTPUT}/"])
def test_each_job_writes_to_a_folder_of_its_own(bucket: Bucket, output: str) -> None:
    bucket.put("in.jsonl", b"x")
    assert run_event(bucket, {**PLAN, "output": output})["job"]["output"] == f"{OUTPUT}job-1/"


class Sized(Memory):
    """A store with one large object."""

    def stat(self, name: str) -> Stat:
        """Return its size."""
        return Stat(len(name) and 50 * 10**12, '"0123456789abcdef0123456789abcdef-10000"')


def test_the_plan_of_the_largest_object_fits_into_an_execution() -> None:
    large = plan_job(Sized(), INPUT, f"{OUTPUT}{'x' * 80}/", "x" * 80, CREATED)
    parts = [*large.starts]
    assert len(parts) <= MAX_PARTS
    assert parts[-1] < large.size <= parts[-1] + large.part_bytes
    assert len(json.dumps({"parts": parts})) < 200_000


def test_different_jobs_have_different_digests() -> None:
    one = Job("in", "out/", "a", 1, "x", 10, 1)
    assert one.digest == Job("elsewhere", "there/", "a", 1, "x", 10, 1).digest
    others = [
        Job("in", "out/", *told) for told in [("b", 1, "x", 10, 1), ("a", 2, "x", 10, 1), ("a", 1, "y", 10, 1)]
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 4


@pytest.mark.parametrize(
    "event",
    [
        None,
        {},
        {"step": "other"},
        {**PLAN, "input": None},
        {**PLAN, "input": "in.jsonl"},
        {**PLAN, "input": "s3://batches"},
        {**PLAN, "output": "s3://"},
        {**PLAN, "output": "out/"},
        {**PLAN, "id": ""},
        {**PLAN, "id": "a/b"},
        {**PLAN, "id": ".."},
        {**PLAN, "started": "yesterday"},
        {**PLAN, "started": "1969-12-31T23:59:59Z"},
        {**PLAN, "started": "0001-01-01T00:00:00+23:59"},
        {**PLAN, "input": f"s3://{BUCKET}/" + "ü" * 513},
        {**PLAN, "input": f"s3://{BUCKET}/\ud800"},
        {**PLAN, "input": f"s3://{BUCKET}/absent"},
        {**PLAN, "input": "s3://absent-bucket/in.jsonl"},
        {"step": "derender", "job": {}, "start": 0},
        {"step": "finish"},
    ],
)
def test_an_invalid_event_fails_the_job(bucket: Bucket, event: object) -> None:
    bucket.put("in.jsonl", b"x")
    with pytest.raises(BatchError) as raised:
        run_event(bucket, event)
    # Step Functions is told the class's name.
    assert type(raised.value).__name__ == "BatchError"
    assert str(raised.value)


@pytest.mark.parametrize("start", [-1, 1, 10**9])
def test_a_part_starts_inside_the_input(bucket: Bucket, start: int) -> None:
    bucket.put("in.jsonl", b"x")
    planned = run_event(bucket, PLAN)
    with pytest.raises(BatchError):
        run_event(bucket, {"step": "derender", "job": planned["job"], "start": start})
