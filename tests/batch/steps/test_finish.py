"""Finishing a job: checks, duplicates, the manifest."""

from __future__ import annotations

import json

import pytest

from derender.batch import BatchError
from derender.batch.steps.finish import finish_job
from tests.batch.bucket import BUCKET, Bucket
from tests.batch.inputs import line, lines
from tests.batch.jobs import Memory, conclude, derender, make_job, make_worker

from .events import OUTPUT, PLAN, run_event
from .test_deaths import MIXED


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("gone", ["first", "middle", "last", "all"])
def test_a_missing_piece_fails_the_job(bucket: Bucket, gone: str) -> None:
    job = bucket.job(b"".join(lines(12)))
    derender(make_worker(bucket.store), job)
    records = [key for key in bucket.objects() if "/records/" in key]
    for key in {"first": records[:1], "middle": records[1:2], "last": records[2:], "all": records}[gone]:
        bucket.client.delete_object(Bucket=BUCKET, Key=key)
    with pytest.raises(BatchError, match="is in no piece"):
        finish_job(bucket.store, job)
    assert "out/job-1/manifest.json" not in bucket.objects()


def test_overlapping_pieces_fail_the_job(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    job = bucket.job(b"".join(lines(12)))
    derender(make_worker(bucket.store), job)
    whole = {name: bucket.store.read(name) for name in (job.record_name(0), job.lines_name("results", 0))}
    bucket.client.delete_object(Bucket=BUCKET, Key=job.record_name(0).removeprefix(f"s3://{BUCKET}/"))
    monkeypatch.setattr("derender.batch.steps.derender.MAX_LINES", 4)
    derender(make_worker(bucket.store), job)
    for name, content in whole.items():
        bucket.store.write(name, content)
    with pytest.raises(BatchError, match="is in two pieces"):
        finish_job(bucket.store, job)


@pytest.mark.parametrize("damage", [None, b"", b"short\n"])
@pytest.mark.parametrize("kind", ["results", "errors"])
def test_a_damaged_piece_fails_the_job_until_it_is_derendered_again(
    bucket: Bucket, kind: str, damage: bytes | None
) -> None:
    job = bucket.job(lines(1)[0] + b"x\n")
    derender(make_worker(bucket.store), job)
    expected = bucket.objects()
    key = f"out/job-1/{kind}/{0:015d}.jsonl"
    if damage is None:
        bucket.client.delete_object(Bucket=BUCKET, Key=key)
    else:
        bucket.put(key, damage)
    with pytest.raises(BatchError, match=f"{key} is missing or was changed"):
        finish_job(bucket.store, job)
    derender(make_worker(bucket.store), job)
    assert bucket.objects() == expected


def test_lost_lines_are_noticed_even_if_the_size_is_the_same(bucket: Bucket) -> None:
    job = bucket.job(b"x\n" * 2)
    derender(make_worker(bucket.store), job)
    content = bucket.store.read(job.lines_name("errors", 0))
    bucket.store.write(job.lines_name("errors", 0), content.replace(b"\n", b" ", 1))
    with pytest.raises(BatchError, match="is missing or was changed"):
        finish_job(bucket.store, job)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("000000000000000.json", b""),
        ("000000000000000.json", b"\xff"),
        ("000000000000000.json", b'{"job": 1}'),
        ("notes.txt", b"mine"),
        ("000000000000009.json", None),
    ],
)
def test_an_object_that_is_no_record_fails_the_job(bucket: Bucket, name: str, content: bytes | None) -> None:
    job = bucket.job(lines(1)[0])
    derender(make_worker(bucket.store), job)
    record = bucket.store.read(job.record_name(0))
    bucket.put(f"out/job-1/records/{name}", record if content is None else content)
    with pytest.raises(BatchError, match=f"records/{name} is no record of a piece"):
        finish_job(bucket.store, job)


def test_objects_of_another_job_do_not_count(bucket: Bucket) -> None:
    before = bucket.job(b"x\n" + line("a") * 2)
    derender(make_worker(bucket.store), before)
    assert conclude(bucket.store, before).errors
    job = bucket.job(line("a") + line("b") + line("a"))
    derender(make_worker(bucket.store), job)
    made = conclude(bucket.store, job)
    assert made.manifest["counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert [output["custom_id"] for output in made.outputs] == ["a", "b", "a"]

    job = bucket.job(line("a"))
    derender(make_worker(bucket.store), job)
    made = conclude(bucket.store, job)
    assert made.manifest["errors"] is None
    assert bucket.objects()["out/job-1/errors.jsonl"] == b""


def test_missing_errors_fail_the_job(bucket: Bucket) -> None:
    bucket.put("in.jsonl", b"x\n")
    event = {"step": "derender", "job": run_event(bucket, PLAN)["job"], "start": 0}
    run_event(bucket, event)
    bucket.client.delete_object(Bucket=BUCKET, Key="out/job-1/errors/000000000000000.jsonl")
    with pytest.raises(BatchError, match="is missing or was changed"):
        run_event(bucket, {"step": "finish", "job": event["job"]})


@pytest.mark.usefixtures("pieces")
def test_the_manifest_lists_results_and_errors(bucket: Bucket) -> None:
    bucket.put("in.jsonl", b"".join(MIXED))
    planned = run_event(bucket, PLAN)
    for start in planned["parts"]:
        run_event(bucket, {"step": "derender", "job": planned["job"], "start": start})
    finished = run_event(bucket, {"step": "finish", "job": planned["job"]})
    objects = bucket.objects()
    manifest = json.loads(objects["out/job-1/manifest.json"])
    assert finished == {
        "manifest": f"{OUTPUT}job-1/manifest.json",
        "counts": {"total": 16, "completed": 9, "failed": 7},
        "usage": {"prompt_tokens": 63, "completion_tokens": 45, "total_tokens": 108},
    }
    assert manifest["job"] == planned["job"]
    assert manifest["counts"] == finished["counts"]
    assert manifest["usage"] == finished["usage"]
    assert manifest["failures"] == {"duplicate_custom_id": 5, "invalid_custom_id": 1, "invalid_json_line": 1}
    listed = [*manifest["results"], manifest["errors"]]
    for each in listed:
        content = objects[each["key"]]
        assert each == {"key": each["key"], "bytes": len(content), "lines": content.count(b"\n")}
        assert each["lines"]
    assert sum(each["lines"] for each in listed) == 16


@pytest.mark.parametrize("lines_of_a_piece", [1, 2, 1000])
@pytest.mark.parametrize("part_bytes", [1, 1000, 1 << 20])
def test_a_custom_id_is_answered_once(
    monkeypatch: pytest.MonkeyPatch, part_bytes: int, lines_of_a_piece: int
) -> None:
    monkeypatch.setattr("derender.batch.steps.derender.MAX_LINES", lines_of_a_piece)
    content = [
        line("a"),
        line("b"),
        line("a"),
        line("c", {}),
        line("c"),
        line("a", {}),
        line("b"),
        line(7),
        line(7),
    ]
    store = Memory(**{"bucket/in.jsonl": b"".join(content)})
    job = make_job(store, "bucket/in.jsonl", "bucket/out/job-1/", max(part_bytes, 50))
    derender(make_worker(store), job)
    made = conclude(store, job)
    told = [
        output["error"]["code"] if output["error"] else output["response"]["status_code"]
        for output in made.outputs
    ]
    assert told == [
        *(200, 200, "duplicate_custom_id", 400, "duplicate_custom_id", 400, "duplicate_custom_id"),
        *("invalid_custom_id", "invalid_custom_id"),
    ]
    assert [output["custom_id"] for output in made.outputs] == ["a", "b", "a", "c", "c", "a", "b", None, None]
    assert made.manifest["usage"] == {"prompt_tokens": 14, "completion_tokens": 10, "total_tokens": 24}
    objects = dict(store.objects)
    assert conclude(store, job) == made
    assert store.objects == objects


def test_all_lines_may_have_one_custom_id() -> None:
    store = Memory(**{"bucket/in.jsonl": line("a") * 50})
    job = make_job(store, "bucket/in.jsonl", "bucket/out/job-1/", 1000)
    derender(make_worker(store), job)
    made = conclude(store, job)
    assert made.manifest["counts"] == {"total": 50, "completed": 1, "failed": 49}
    assert len(made.manifest["results"]) == 1


@pytest.mark.parametrize("count", [2500, pytest.param(10_000, marks=pytest.mark.long)])
def test_many_lines_stay_in_order(bucket: Bucket, count: int) -> None:
    job = bucket.job(b"".join(lines(count)))
    derender(make_worker(bucket.store), job)
    made = conclude(bucket.store, job)
    assert made.errors == b""
    assert [json.loads(each)["custom_id"] for each in made.results.splitlines()] == [
        f"line-{number:05}" for number in range(count)
    ]
    assert made.manifest["counts"] == {"total": count, "completed": count, "failed": 0}
    assert len(made.manifest["results"]) > count // 1000


def test_pieces_that_another_job_left_do_not_count(bucket: Bucket, pieces: int) -> None:
    derender(make_worker(bucket.store), bucket.job(b"".join(lines(3 * pieces))))
    job = bucket.job(b"".join(lines(pieces)))
    derender(make_worker(bucket.store), job)
    assert len([key for key in bucket.objects() if "/records/" in key]) == 3
    assert conclude(bucket.store, job).manifest["counts"]["total"] == pieces
