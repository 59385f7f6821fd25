"""Lines that refer to generate responses in S3."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ParamValidationError

from derender.batch import References
from derender.batch.lines import references
from derender.batch.lines.output_lines import answer_line
from derender.batch.stores.prefetch import MAX_AHEAD, THREADS
from derender.batch.stores.store import Unavailable
from tests.batch.bucket import BUCKET, Bucket
from tests.batch.inputs import CHAT, COMPLETIONS, chat, completion, generated, line
from tests.batch.jobs import MAX_LINE, Made, Memory, conclude, derender, make_job, make_worker

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "s3://objects/"


def run(content: bytes, objects: Mapping[str, object], store: Memory | None = None) -> Made:
    """Run a job whose lines refer to some objects."""
    store = store or Memory()
    for name, held in objects.items():
        store.objects[PREFIX + name] = held if isinstance(held, bytes) else json.dumps(held).encode()
    store.objects["bucket/in.jsonl"] = content
    job = make_job(store, "bucket/in.jsonl", "bucket/out/job-1/")
    derender(make_worker(store), job)
    return conclude(store, job)


def only(content: bytes, objects: Mapping[str, object]) -> Any:
    """Return the only output line."""
    (output,) = run(content, objects).outputs
    return output


FORMS = {
    "a generate response": (CHAT, chat(f"{PREFIX}one"), chat(generated())),
    "an item of generate responses": (
        COMPLETIONS,
        completion(f"{PREFIX}one", generated(), f"{PREFIX}one"),
        completion(generated(), generated(), generated()),
    ),
    "all generate responses": (
        COMPLETIONS,
        {"generate_responses": f"{PREFIX}two"},
        {"generate_responses": [generated(), generated()]},
    ),
    "a chat body": (CHAT, f"{PREFIX}chat", chat()),
    "a completions body": (COMPLETIONS, f"{PREFIX}completion", completion(generated())),
}


OBJECTS = {
    "one": generated(),
    "two": [generated(), generated()],
    "chat": chat(),
    "completion": completion(generated()),
}


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("form", FORMS)
def test_a_referenced_object_is_derendered_as_if_it_were_in_the_line(form: str, *, compressed: bool) -> None:
    url, referring, whole = FORMS[form]
    objects = {name: json.dumps(held).encode() for name, held in OBJECTS.items()}
    if compressed:
        objects = {name: gzip.compress(content) for name, content in objects.items()}
    output = only(line(body=referring, url=url), objects)
    assert output["error"] is None
    assert output == only(line(body=whole, url=url), {})


def test_other_text_is_not_taken_for_a_reference() -> None:
    body = chat(
        chat_request={"messages": [{"role": "user", "content": "s3://objects/one"}], "user": "s3://a/b"}
    )
    assert only(line(body=body), {})["response"]["status_code"] == 200


def test_references_are_not_followed_further() -> None:
    output = only(line(body=f"{PREFIX}body"), {"body": chat(f"{PREFIX}one"), "one": generated()})
    assert output["response"]["status_code"] == 400
    assert output["response"]["body"]["error"]["param"] == "generate_response"


def test_an_object_can_not_end_the_value_that_it_stands_for() -> None:
    output = only(line(body=chat(f"{PREFIX}a", model=None)), {"a": b'{"choices": []}, "model": "Qwen3"'})
    assert output["error"]["code"] == "invalid_reference"


def test_keys_may_have_any_character() -> None:
    key = 'a b/ü/"\\?#%20\n.json'
    assert only(line(body=chat(PREFIX + key)), {key: generated()})["error"] is None


def padded(length: int) -> bytes:
    """Return a generate response of a number of bytes."""
    content = json.dumps(generated()).encode()
    return content[:-1] + b" " * (length - len(content)) + b"}"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        pytest.param(b"", "invalid_reference", id="empty"),
        pytest.param(b"{", "invalid_reference", id="no JSON"),
        pytest.param(b"{}{}", "invalid_reference", id="more than JSON"),
        pytest.param(gzip.compress(padded(999))[:-1], "invalid_reference", id="truncated gzip"),
        pytest.param(b"\x1f\x8bnothing", "invalid_reference", id="no gzip"),
        pytest.param(gzip.compress(b"{") + gzip.compress(b"}"), "invalid_reference", id="gzip of two members"),
        pytest.param(padded(MAX_LINE + 1), "reference_too_large", id="too large"),
        pytest.param(gzip.compress(padded(MAX_LINE + 1)), "reference_too_large", id="too large, compressed"),
        pytest.param(gzip.compress(bytes(9 << 20)), "reference_too_large", id="a bomb"),
        pytest.param(None, "reference_not_found", id="missing"),
    ],
)
@pytest.mark.parametrize("early", [MAX_LINE + 1, 10], ids=["early", "late"])
def test_a_bad_reference_fails_its_line_alone(
    monkeypatch: pytest.MonkeyPatch, content: bytes | None, code: str, early: int
) -> None:
    monkeypatch.setattr(references, "MAX_EARLY_BYTES", early)
    objects = {"good": padded(MAX_LINE), **({} if content is None else {"bad": content})}
    made = run(b"".join(line(name, chat(PREFIX + name)) for name in ("good", "bad", "good")), objects)
    assert [output["custom_id"] for output in made.outputs] == ["good", "bad", "good"]
    first, second, _ = made.outputs
    assert first["error"] is None
    assert second["error"]["code"] == code
    assert second["error"]["offset"] == len(line("good", chat(PREFIX + "good")))
    assert made.manifest["failures"] == {code: 1, "duplicate_custom_id": 1}


def test_all_that_a_line_refers_to_is_limited_together() -> None:
    half = padded(MAX_LINE // 2)
    good, bad = (line(str(count), completion(*[f"{PREFIX}half"] * count), url=COMPLETIONS) for count in (2, 3))
    first, second = run(good + bad, {"half": half}).outputs
    assert first["error"] is None
    assert second["error"]["code"] == "reference_too_large"
    assert f"{MAX_LINE} bytes" in second["error"]["message"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((404, "NoSuchKey"), "reference_not_found"),
        ((404, "NoSuchBucket"), "reference_not_found"),
        ((403, "AccessDenied"), "reference_forbidden"),
        ((403, "InvalidObjectState"), "reference_forbidden"),
        ((400, "KMS.DisabledException"), "reference_forbidden"),
        ((400, "KeyTooLongError"), "invalid_reference"),
        ((301, "PermanentRedirect"), "invalid_reference"),
    ],
)
def test_a_refusal_of_s3_is_an_error_of_the_line(bucket: Bucket, answer: tuple[int, str], code: str) -> None:
    name = bucket.put("one", json.dumps(generated()).encode())
    job = bucket.job(line("a", chat(name)) + line("b", chat("s3://others/one")))
    bucket.on_call = lambda _, asked: answer if asked["Bucket"] == "others" else None
    derender(make_worker(bucket.store), job)
    first, second = conclude(bucket.store, job).outputs
    assert first["error"] is None
    assert second["error"]["code"] == code
    assert "others" not in json.dumps(second)


@pytest.mark.parametrize("answer", [(503, "SlowDown"), (500, "InternalError"), (403, "InvalidAccessKeyId")])
def test_a_temporary_failure_of_s3_is_no_error_of_the_line(bucket: Bucket, answer: tuple[int, str]) -> None:
    name = bucket.put("one", json.dumps(generated()).encode())
    job = bucket.job(line("a", chat(name)))
    bucket.on_call = lambda _, asked: answer if asked.get("Key") == "one" else None
    with pytest.raises(Unavailable):
        derender(make_worker(bucket.store), job)
    assert bucket.objects() == {}


@pytest.mark.parametrize("name", [PREFIX + "ü" * 513, "s3://a_b/k", "s3://b/k", "s3://bucket/"])
def test_a_reference_is_a_bucket_and_a_key(name: str) -> None:
    assert only(line(body=chat(name)), {})["error"]["code"] == "invalid_reference"


def test_a_key_may_have_1024_bytes() -> None:
    assert only(line(body=chat(PREFIX + "ü" * 512)), {"ü" * 512: generated()})["error"] is None


def test_a_name_that_boto3_refuses_is_an_error_of_the_line(bucket: Bucket) -> None:
    def refuse(**_: object) -> None:
        raise ParamValidationError(report="Invalid bucket name")

    job = bucket.job(line("a", chat("s3://others/one")) + line("b"))
    bucket.client.meta.events.register(
        "before-call.s3.GetObject", lambda params, **_: refuse() if "others" in params["url"] else None
    )
    derender(make_worker(bucket.store), job)
    first, second = conclude(bucket.store, job).outputs
    assert first["error"]["code"] == "invalid_reference"
    assert second["error"] is None


def test_too_many_references_are_not_fetched() -> None:
    store = Slow()
    store.objects[f"{PREFIX}one"] = json.dumps(generated()).encode()
    store.objects["bucket/in.jsonl"] = b"".join(
        line(f"{count}", completion(*[f"{PREFIX}one"] * count), COMPLETIONS) for count in (2, 3)
    )
    job = make_job(store, "bucket/in.jsonl", "bucket/out/job-1/")
    derender(make_worker(store, max_references=2), job)
    first, second = conclude(store, job).outputs
    assert first["error"] is None
    assert second["custom_id"] == "3"
    assert second["error"]["code"] == "too_many_references"
    assert store.reads.total() == 2


def test_an_invalid_key_beside_a_reference_fails_its_line_alone() -> None:
    good, (before, after) = line("a"), line("b", {"KEY": 1, "generate_response": f"{PREFIX}one"}).split(b"KEY")
    made = run(good + before + b"\xff" + after + line("c"), {"one": generated()})
    assert [output["custom_id"] for output in made.outputs] == ["a", "b", "c"]
    assert made.manifest["failures"] == {"invalid_json_line": 1}


def test_a_piece_without_a_record_does_not_count() -> None:
    store = Memory(**{"bucket/in.jsonl": line("a", chat(f"{PREFIX}late")) + line("b") + line("b")})
    job = make_job(store, "bucket/in.jsonl", "bucket/out/job-1/")
    derender(make_worker(store), job)
    assert store.exists(job.lines_name("errors", 0))
    # The worker died before it wrote the record. When the next one starts, the object exists.
    del store.objects[job.record_name(0)]
    store.objects[f"{PREFIX}late"] = json.dumps(generated()).encode()
    derender(make_worker(store), job)
    made = conclude(store, job)
    assert [output["custom_id"] for output in made.outputs] == ["a", "b", "b"]
    assert made.manifest["counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert made.manifest["failures"] == {"duplicate_custom_id": 1}


class Slow(Memory):
    """A store whose first objects come last. It counts reads, and how many run at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = Counter[str]()
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()

    def read(self, name: str, *, max_bytes: int | None = None) -> bytes:
        """Return an object."""
        if not name.startswith(PREFIX):
            return super().read(name, max_bytes=max_bytes)
        with self._lock:
            self._now += 1
            self.reads[name] += 1
            self.most_at_once = max(self.most_at_once, self._now)
        time.sleep(0.001 if name.endswith(("1", "3", "5")) else 0.003)
        with self._lock:
            self._now -= 1
        return super().read(name, max_bytes=max_bytes)


def test_objects_are_read_in_parallel_and_lines_stay_in_order() -> None:
    store = Slow()
    content = b"".join(
        line(f"{number}", chat(f"{PREFIX}{number}") if number % 3 else chat()) for number in range(100)
    )
    made = run(content, {f"{number}": generated(request_id=f"gen-{number}") for number in range(100)}, store)
    assert [output["custom_id"] for output in made.outputs] == [f"{number}" for number in range(100)]
    assert [output["response"]["body"]["id"] for output in made.outputs] == [
        f"gen-{number}" if number % 3 else "gen-1" for number in range(100)
    ]
    assert set(store.reads.values()) == {1}
    assert 1 < store.most_at_once <= THREADS


def test_a_line_may_refer_to_many_objects() -> None:
    store = Slow()
    names = [f"{number}" for number in range(3 * MAX_AHEAD)]
    body = completion(*(PREFIX + name for name in names))
    responses = {name: generated([15 + int(name[-1])], request_id=name) for name in names}
    (output,) = run(line(body=body, url=COMPLETIONS), responses, store).outputs
    assert [choice["text"] for choice in output["response"]["body"]["choices"]] == [name[-1] for name in names]
    assert store.most_at_once <= THREADS


def test_reading_ahead_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    store, kept = Slow(), list[int]()

    def noted(*arguments: Any) -> Any:
        kept.append(store.reads.total() - len(kept))
        return answer_line(*arguments)

    monkeypatch.setattr("derender.batch.steps.derender.answer_line", noted)
    content = b"".join(line(f"{number}", chat(f"{PREFIX}{number}")) for number in range(200))
    run(content, {f"{number}": generated() for number in range(200)}, store)
    assert max(kept) <= MAX_AHEAD


def test_lines_without_references_need_no_store() -> None:
    store = Memory(**{"bucket/in.jsonl": line()})
    job = make_job(store, "bucket/in.jsonl", "bucket/out/job-1/")

    def nowhere() -> Any:
        raise AssertionError

    derender(replace(make_worker(store), references=References(nowhere, MAX_LINE)), job)
    assert conclude(store, job).manifest["counts"]["completed"] == 1


def test_a_gzipped_object_in_a_bucket_is_read(bucket: Bucket) -> None:
    name = bucket.put("folder/one.json.gz", gzip.compress(json.dumps(generated()).encode()))
    assert name == f"s3://{BUCKET}/folder/one.json.gz"
    job = bucket.job(line(body=chat(name)))
    derender(make_worker(bucket.store), job)
    (output,) = conclude(bucket.store, job).outputs
    assert output["response"]["body"]["choices"][0]["message"]["content"] == "Hello, world!"
