"""The steps of a job on S3, whoever dies in them."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from derender.batch import BatchError, run_step
from derender.batch.finish import finish
from derender.batch.job import LEAST_PART, MOST_PARTS, Job, plan
from derender.batch.part import derender_part
from derender.batch.stores import Stat, Unavailable

from .support import BUCKET, CREATED, Bucket, Death, Memory, conclude, derender, job, line, lines, worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from derender.batch.stores import Store
    from derender.telemetry.tally import Tally

INPUT = f"s3://{BUCKET}/in.jsonl"
OUTPUT = f"s3://{BUCKET}/out/"
STARTED = "2026-01-02T03:04:05.678Z"
PLAN = {"step": "plan", "input": INPUT, "output": OUTPUT, "id": "job-1", "started": STARTED}


def step(bucket: Bucket, event: object, *, is_late: bool = False, told: list[Tally] | None = None) -> Any:
    """Do a step; what it is answered with went through JSON, as in AWS."""
    observe = (lambda _: None) if told is None else told.append
    answer = run_step(event, worker(bucket.store), is_late=lambda: is_late, observe=observe)
    return json.loads(json.dumps(answer))


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> int:
    """Lines of a piece, made few."""
    monkeypatch.setattr("derender.batch.part.MOST_LINES", 4)
    return 4


# --- plan -----------------------------------------------------------------------------------------------------


def test_a_job_is_planned(bucket: Bucket) -> None:
    bucket.put("in.jsonl", b"x" * (LEAST_PART * 5 // 2))
    planned = step(bucket, PLAN)
    assert planned["parts"] == [0, LEAST_PART, 2 * LEAST_PART]
    assert planned["job"] == {
        "input": INPUT,
        "output": f"{OUTPUT}job-1/",
        "id": "job-1",
        "created": CREATED,
        "etag": bucket.store.stat(INPUT).etag,
        "size": LEAST_PART * 5 // 2,
        "part_bytes": LEAST_PART,
    }


def test_an_empty_input_has_no_parts(bucket: Bucket) -> None:
    bucket.put("in.jsonl", b"")
    assert step(bucket, PLAN)["parts"] == []


@pytest.mark.parametrize("output", [OUTPUT, OUTPUT.rstrip("/"), f"{OUTPUT}/"])
def test_the_output_is_a_folder_of_the_jobs_own(bucket: Bucket, output: str) -> None:
    bucket.put("in.jsonl", b"x")
    assert step(bucket, {**PLAN, "output": output})["job"]["output"] == f"{OUTPUT}job-1/"


class Sized(Memory):
    """A store of one large object."""

    def stat(self, name: str) -> Stat:
        """Its size."""
        return Stat(len(name) and 50 * 10**12, '"0123456789abcdef0123456789abcdef-10000"')


def test_the_plan_of_the_largest_object_fits_into_an_execution() -> None:
    large = plan(Sized(), INPUT, f"{OUTPUT}{'x' * 80}/", "x" * 80, CREATED)
    parts = [*large.starts]
    assert len(parts) <= MOST_PARTS
    assert parts[-1] < large.size <= parts[-1] + large.part_bytes
    assert len(json.dumps({"parts": parts})) < 200_000


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
def test_an_event_that_can_not_be_done_fails_the_job(bucket: Bucket, event: object) -> None:
    bucket.put("in.jsonl", b"x")
    with pytest.raises(BatchError) as raised:
        step(bucket, event)
    # Step Functions is told the class's name.
    assert type(raised.value).__name__ == "BatchError"
    assert str(raised.value)


@pytest.mark.parametrize("start", [-1, 1, 10**9])
def test_a_part_begins_in_the_input(bucket: Bucket, start: int) -> None:
    bucket.put("in.jsonl", b"x")
    planned = step(bucket, PLAN)
    with pytest.raises(BatchError):
        step(bucket, {"step": "derender", "job": planned["job"], "start": start})


# --- derender -------------------------------------------------------------------------------------------------


def test_a_part_is_derendered_in_pieces(bucket: Bucket, pieces: int) -> None:
    bucket.put("in.jsonl", b"".join([*lines(6), b"x\n", *lines(2)]))
    planned = step(bucket, PLAN)
    told: list[Tally] = []
    assert step(bucket, {"step": "derender", "job": planned["job"], "start": 0}, told=told) == {"next": None}
    second, third = (sum(map(len, [*lines(6), b"x\n", *lines(2)][:number])) for number in (pieces, 2 * pieces))
    assert sorted(bucket.objects()) == [
        f"out/job-1/errors/{second:015d}.jsonl",
        *(f"out/job-1/records/{start:015d}.json" for start in (0, second, third)),
        *(f"out/job-1/results/{start:015d}.jsonl" for start in (0, second, third)),
    ]
    assert [counts.requests for counts in told] == [4, 4, 1]
    assert sum((counts.completed for counts in told), 0) == 8
    assert [counts.failed for counts in told] == [{}, {"invalid_json_line": 1}, {}]


def test_a_piece_ends_with_the_line_that_fills_it(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    (length,) = {len(each) for each in lines(1)}
    monkeypatch.setattr("derender.batch.part.MOST_BYTES", 2 * length + 1)
    of = bucket.job(b"".join(lines(9)))
    # What is written is more than what was read.
    assert {counts.requests for counts in derender(worker(bucket.store), of)} < {1, 2, 3}


def test_a_part_that_takes_too_long_is_gone_on_with(bucket: Bucket, pieces: int) -> None:
    content = b"".join(lines(11))
    of = bucket.job(content)
    derender(worker(bucket.store), of)
    expected = bucket.objects()
    bucket.client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in expected]})
    event = {"step": "derender", "job": step(bucket, PLAN)["job"], "start": 0}
    (length,) = {len(each) for each in lines(1)}
    for reached in (pieces * length, 2 * pieces * length, None):
        told: list[Tally] = []
        assert step(bucket, event, is_late=True, told=told) == {"next": reached}
        assert len(told) == 1
        event["start"] = reached
    assert bucket.objects() == expected


def test_a_step_that_is_repeated_writes_nothing_again(bucket: Bucket, pieces: int) -> None:
    of = bucket.job(b"".join(lines(pieces * 3)))
    derender(worker(bucket.store), of)
    bucket.calls.clear()
    assert derender(worker(bucket.store), of) == []
    assert "PutObject" not in [name for name, _ in bucket.calls]


@pytest.mark.usefixtures("pieces")
def test_a_step_whose_records_are_gone_writes_the_same(bucket: Bucket) -> None:
    of = bucket.job(b"".join([*lines(6), b"x\n", *lines(2)]))
    derender(worker(bucket.store), of)
    expected = bucket.objects()
    for key in expected:
        if "/records/" in key:
            bucket.client.delete_object(Bucket=BUCKET, Key=key)
    derender(worker(bucket.store), of)
    assert bucket.objects() == expected


@pytest.mark.usefixtures("pieces")
def test_what_another_job_has_written_to_the_same_place_is_written_over(bucket: Bucket) -> None:
    content = b"".join(lines(9))
    derender(worker(bucket.store), bucket.job(content + b"x\n"))
    of = bucket.job(content)
    derender(worker(bucket.store), of)
    made = conclude(bucket.store, of)
    assert made.manifest["counts"] == {"total": 9, "completed": 9, "failed": 0}


def test_an_input_that_was_replaced_fails_the_job(bucket: Bucket) -> None:
    bucket.put("in.jsonl", lines(1)[0])
    planned = step(bucket, PLAN)
    bucket.put("in.jsonl", lines(2)[1])
    with pytest.raises(BatchError, match=r"in\.jsonl was replaced"):
        step(bucket, {"step": "derender", "job": planned["job"], "start": 0})


@pytest.mark.parametrize("operation", ["ListObjectsV2", "GetObject", "PutObject"])
@pytest.mark.parametrize("answer", [(503, "SlowDown"), (503, "ServiceUnavailable"), (500, "InternalError")])
def test_an_s3_that_is_busy_is_worth_a_retry(bucket: Bucket, operation: str, answer: tuple[int, str]) -> None:
    bucket.put("in.jsonl", lines(1)[0])
    event = {"step": "derender", "job": step(bucket, PLAN)["job"], "start": 0}
    bucket.on_call = lambda name, _: answer if name == operation else None
    with pytest.raises(Unavailable):
        step(bucket, event)
    assert not [key for key in bucket.objects() if "/records/" in key]
    bucket.on_call = lambda _name, _asked: None
    assert step(bucket, event) == {"next": None}


def test_an_output_that_may_not_be_written_fails_the_job(bucket: Bucket) -> None:
    bucket.put("in.jsonl", lines(1)[0])
    event = {"step": "derender", "job": step(bucket, PLAN)["job"], "start": 0}
    bucket.on_call = lambda name, _: (403, "AccessDenied") if name == "PutObject" else None
    with pytest.raises(BatchError, match="may not be read or written"):
        step(bucket, event)


# --- deaths ---------------------------------------------------------------------------------------------------

MIXED = [*lines(5), b"x\n", b"\n", *lines(3), line("line-00004"), *lines(9)[5:], line(7), line("line-00008")]
"""Lines 0 to 8, some of them again, and some that are none."""


def die_at_each_call(bucket: Bucket, do: Any) -> int:
    """Do something again and again, each time until one call further on. How often it died."""
    for deaths in count():
        calls = count()

        def die(_name: str, _asked: Any, calls: Any = calls, deaths: int = deaths) -> None:
            if next(calls) == deaths:
                raise Death

        bucket.on_call = die
        try:
            do()
        except Death:
            continue
        finally:
            bucket.on_call = lambda _name, _asked: None
        return deaths
    raise AssertionError


def derender_all(store: Store, of: Job) -> None:
    derender(worker(store), of)


def finish_all(store: Store, of: Job) -> None:
    finish(store, of)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("part_bytes", [1 << 20, 1000])
def test_a_worker_may_die_again_and_again(bucket: Bucket, part_bytes: int) -> None:
    of = bucket.job(b"".join(MIXED), part_bytes)
    derender(worker(bucket.store), of)
    made = conclude(bucket.store, of)
    expected = bucket.objects()
    for key in expected:
        bucket.client.delete_object(Bucket=BUCKET, Key=key)

    assert die_at_each_call(bucket, lambda: derender(worker(bucket.store), of)) > 10
    assert die_at_each_call(bucket, lambda: finish(bucket.store, of)) > 10
    assert bucket.objects() == expected
    assert conclude(bucket.store, of) == made
    assert bucket.objects() == expected


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("step", [derender_all, finish_all])
def test_a_worker_may_die_once_at_any_call(step: Callable[[Store, Job], object]) -> None:
    before = Memory(**{"bucket/in.jsonl": b"".join(MIXED)})
    of = job(before, "bucket/in.jsonl", "bucket/out/job-1/", 1000)
    if step is finish_all:
        derender_all(before, of)
    undisturbed = Memory(**before.objects)
    step(undisturbed, of)
    for number in count():
        store, left = Memory(**before.objects), iter(range(number))

        def die_once(store: Memory = store, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                store.on_call = lambda: None
                raise Death

        store.on_call = die_once
        try:
            step(store, of)
        except Death:
            step(store, of)
            assert store.objects == undisturbed.objects
        else:
            assert number > 20
            break


def test_an_observer_is_told_of_each_line_once(bucket: Bucket, pieces: int) -> None:
    of = bucket.job(b"".join(lines(5 * pieces)))
    told: list[Tally] = []

    def do() -> None:
        derender_part(worker(bucket.store), of, 0, is_late=lambda: False, observe=told.append)

    die_at_each_call(bucket, do)
    assert sum(counts.requests for counts in told) == 5 * pieces


# --- finish ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("gone", ["first", "middle", "last", "all"])
def test_a_piece_that_is_missing_fails_the_job(bucket: Bucket, gone: str) -> None:
    of = bucket.job(b"".join(lines(12)))
    derender(worker(bucket.store), of)
    records = [key for key in bucket.objects() if "/records/" in key]
    for key in {"first": records[:1], "middle": records[1:2], "last": records[2:], "all": records}[gone]:
        bucket.client.delete_object(Bucket=BUCKET, Key=key)
    with pytest.raises(BatchError, match="is in no piece"):
        finish(bucket.store, of)
    assert "out/job-1/manifest.json" not in bucket.objects()


def test_pieces_that_overlap_fail_the_job(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    of = bucket.job(b"".join(lines(12)))
    derender(worker(bucket.store), of)
    whole = {name: bucket.store.read(name) for name in (of.record_name(0), of.results_name(0))}
    bucket.client.delete_object(Bucket=BUCKET, Key=of.record_name(0).removeprefix(f"s3://{BUCKET}/"))
    monkeypatch.setattr("derender.batch.part.MOST_LINES", 4)
    derender(worker(bucket.store), of)
    for name, content in whole.items():
        bucket.store.write(name, content)
    with pytest.raises(BatchError, match="is in two pieces"):
        finish(bucket.store, of)


@pytest.mark.parametrize("damage", [None, b"", b"short\n"])
@pytest.mark.parametrize("kind", ["results", "errors"])
def test_a_piece_that_is_damaged_fails_the_job_until_it_is_done_again(
    bucket: Bucket, kind: str, damage: bytes | None
) -> None:
    of = bucket.job(lines(1)[0] + b"x\n")
    derender(worker(bucket.store), of)
    expected = bucket.objects()
    key = f"out/job-1/{kind}/{0:015d}.jsonl"
    if damage is None:
        bucket.client.delete_object(Bucket=BUCKET, Key=key)
    else:
        bucket.put(key, damage)
    with pytest.raises(BatchError, match=f"{key} is not there, or not as it was written"):
        finish(bucket.store, of)
    derender(worker(bucket.store), of)
    assert bucket.objects() == expected


def test_lines_that_were_lost_are_noticed_where_lengths_are_the_same(bucket: Bucket) -> None:
    of = bucket.job(b"x\n" * 2)
    derender(worker(bucket.store), of)
    content = bucket.store.read(of.errors_name(0))
    bucket.store.write(of.errors_name(0), content.replace(b"\n", b" ", 1))
    with pytest.raises(BatchError, match="not as it was written"):
        finish(bucket.store, of)


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
def test_what_is_no_record_fails_the_job(bucket: Bucket, name: str, content: bytes | None) -> None:
    of = bucket.job(lines(1)[0])
    derender(worker(bucket.store), of)
    record = bucket.store.read(of.record_name(0))
    bucket.put(f"out/job-1/records/{name}", record if content is None else content)
    with pytest.raises(BatchError, match=f"records/{name} is no record of a piece"):
        finish(bucket.store, of)


def test_nothing_of_another_job_counts(bucket: Bucket) -> None:
    before = bucket.job(b"x\n" + line("a") * 2)
    derender(worker(bucket.store), before)
    assert conclude(bucket.store, before).errors
    of = bucket.job(line("a") + line("b") + line("a"))
    derender(worker(bucket.store), of)
    made = conclude(bucket.store, of)
    assert made.manifest["counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert [output["custom_id"] for output in made.outputs] == ["a", "b", "a"]

    of = bucket.job(line("a"))
    derender(worker(bucket.store), of)
    made = conclude(bucket.store, of)
    assert made.manifest["errors"] is None
    assert bucket.objects()["out/job-1/errors.jsonl"] == b""


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("late", [derender_all, finish_all])
def test_who_comes_late_changes_nothing(late: Callable[[Store, Job], object]) -> None:
    before = Memory(**{"bucket/in.jsonl": b"".join(MIXED)})
    of = job(before, "bucket/in.jsonl", "bucket/out/job-1/", 1000)
    derender_all(before, of)
    undisturbed = Memory(**before.objects)
    finish_all(undisturbed, of)
    records = {name: content for name, content in before.objects.items() if "/records/" in name}
    for number in count():
        store, left = Memory(**before.objects), iter(range(number))

        def interfere(store: Memory = store, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                store.on_call = lambda: None
                if late is derender_all:
                    # Who saw no records writes all again.
                    alone = Memory(**{"bucket/in.jsonl": store.objects["bucket/in.jsonl"]})
                    derender_all(alone, of)
                    assert alone.objects.keys() > records.keys()
                    store.objects.update(alone.objects)
                else:
                    finish_all(store, of)

        store.on_call = interfere
        finish_all(store, of)
        assert store.objects == undisturbed.objects
        late(store, of)
        assert store.objects == undisturbed.objects
        if next(left, None) is not None:
            assert number > 20
            break


def test_results_that_are_gone_fail_the_job(bucket: Bucket) -> None:
    bucket.put("in.jsonl", b"x\n")
    event = {"step": "derender", "job": step(bucket, PLAN)["job"], "start": 0}
    step(bucket, event)
    bucket.client.delete_object(Bucket=BUCKET, Key="out/job-1/errors/000000000000000.jsonl")
    with pytest.raises(BatchError, match="is not there"):
        step(bucket, {"step": "finish", "job": event["job"]})


@pytest.mark.usefixtures("pieces")
def test_the_manifest_lists_what_there_is(bucket: Bucket) -> None:
    bucket.put("in.jsonl", b"".join(MIXED))
    planned = step(bucket, PLAN)
    for start in planned["parts"]:
        step(bucket, {"step": "derender", "job": planned["job"], "start": start})
    finished = step(bucket, {"step": "finish", "job": planned["job"]})
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


# --- custom ids -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines_of_a_piece", [1, 2, 1000])
@pytest.mark.parametrize("part_bytes", [1, 1000, 1 << 20])
def test_a_custom_id_is_used_once(
    monkeypatch: pytest.MonkeyPatch, part_bytes: int, lines_of_a_piece: int
) -> None:
    monkeypatch.setattr("derender.batch.part.MOST_LINES", lines_of_a_piece)
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
    of = job(store, "bucket/in.jsonl", "bucket/out/job-1/", max(part_bytes, 50))
    derender(worker(store), of)
    made = conclude(store, of)
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
    assert conclude(store, of) == made
    assert store.objects == objects


def test_all_lines_may_have_one_custom_id() -> None:
    store = Memory(**{"bucket/in.jsonl": line("a") * 50})
    of = job(store, "bucket/in.jsonl", "bucket/out/job-1/", 1000)
    derender(worker(store), of)
    made = conclude(store, of)
    assert made.manifest["counts"] == {"total": 50, "completed": 1, "failed": 49}
    assert len(made.manifest["results"]) == 1


# --- scale ----------------------------------------------------------------------------------------------------


def test_ten_thousand_lines(bucket: Bucket) -> None:
    of = bucket.job(b"".join(lines(10_000)))
    derender(worker(bucket.store), of)
    made = conclude(bucket.store, of)
    assert made.errors == b""
    assert [json.loads(each)["custom_id"] for each in made.results.splitlines()] == [
        f"line-{number:05}" for number in range(10_000)
    ]
    assert made.manifest["counts"] == {"total": 10_000, "completed": 10_000, "failed": 0}


def test_jobs_tell_each_other_apart() -> None:
    one = Job("in", "out/", "a", 1, "x", 10, 1)
    assert one.digest == Job("elsewhere", "there/", "a", 1, "x", 10, 1).digest
    others = [
        Job("in", "out/", *told) for told in [("b", 1, "x", 10, 1), ("a", 2, "x", 10, 1), ("a", 1, "y", 10, 1)]
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 4
