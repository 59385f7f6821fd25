"""What the tests of batches use: lines, jobs that run here, and an S3 that fails when it is told to."""

from __future__ import annotations

import json
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import moto  # noqa: F401 - before the session, which it is to stand behind
from boto3.session import Session
from botocore.config import Config

from derender.batch.finish import finish
from derender.batch.job import Job
from derender.batch.part import Worker, derender_part
from derender.batch.s3 import S3Store
from derender.batch.stores import Changed, NotFound, Stat, TooLarge
from derender.models.layer import load_models
from derender.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from derender.batch.stores import Store
    from derender.models.model import Models
    from derender.telemetry.tally import Tally

CHAT: Final = "/v1/chat/completions/derender"
COMPLETIONS: Final = "/v1/completions/derender"
HELLO: Final = [9707, 11, 1879, 0]
"""`Hello, world!`"""
END: Final = 151_645
BUCKET: Final = "batches"
REGION: Final = "eu-central-1"
S3_ACCESS: Final = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "key",
    "AWS_DEFAULT_REGION": REGION,
}
"""What a process needs in its environment, besides where S3 is."""
CREATED: Final = 1_767_323_045
MOST: Final = 64 * 1024
"""Bytes of a line that the workers of these tests take."""
SESSION: Final = Session()
"""It reads the description of S3 once."""


@cache
def models() -> Models:
    """The bundled vocabulary, served."""
    return load_models(Settings.from_environment({}))


# --- lines ----------------------------------------------------------------------------------------------------


def generated(token_ids: Sequence[int] = (*HELLO, END), **fields: object) -> dict[str, Any]:
    """A generate response of one choice."""
    choice = {"index": 0, "token_ids": [*token_ids], "finish_reason": "stop"}
    return {"request_id": "gen-1", "choices": [choice], **fields}


def chat(response: object = None, **fields: object) -> dict[str, Any]:
    """The body of a chat request."""
    messages = [{"role": "user", "content": "Say hello"}]
    return {
        "generate_response": generated() if response is None else response,
        "prompt_tokens": 7,
        "chat_request": {"messages": messages},
        **fields,
    }


def completion(*responses: object) -> dict[str, Any]:
    """The body of a completions request."""
    return {"generate_responses": [*responses], "completion_request": {"prompt": "Hello"}}


def line(custom_id: object = "a", body: object = None, url: str = CHAT, **fields: object) -> bytes:
    """An input line, with its newline."""
    body = chat() if body is None else body
    return (
        json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body, **fields}).encode()
        + b"\n"
    )


def lines(count: int) -> list[bytes]:
    """That many good lines of one length."""
    return [line(f"line-{number:05}") for number in range(count)]


# --- jobs -----------------------------------------------------------------------------------------------------


class Made(NamedTuple):
    """What a job has made."""

    results: bytes
    errors: bytes
    manifest: Any
    finished: Any

    @property
    def outputs(self) -> list[Any]:
        """All output lines, as they are in the input."""
        found = [json.loads(each) for each in (self.results + self.errors).splitlines()]
        return sorted(found, key=lambda output: output["id"])


def job(store: Store, name: str, output: str, part_bytes: int = 1 << 20) -> Job:
    """A job of an input that is there."""
    size, etag = store.stat(name)
    return Job(name, output, "job-1", CREATED, etag, size, part_bytes)


def worker(
    store: Store, *, most: int = MOST, most_references: int = 1000, references: Store | None = None
) -> Worker:
    """A worker of the bundled model."""
    return Worker(
        store,
        models(),
        max_body_bytes=most,
        max_sequences=most_references,
        references=lambda: references or store,
    )


def derender(with_: Worker, of: Job, *, is_late: Callable[[], bool] = lambda: False) -> list[Tally]:
    """Do all parts of a job.

    Returns:
        What was told of each piece.
    """
    told: list[Tally] = []
    for start in of.starts:
        place: int | None = start
        while place is not None:
            place = derender_part(with_, of, place, is_late=is_late, observe=told.append).next
    return told


def conclude(store: Store, of: Job) -> Made:
    """Finish a job whose parts are done, and read what it has made."""
    finished = finish(store, of)
    manifest = json.loads(store.read(f"{of.output}manifest.json"))
    bucket = of.output.removesuffix("out/job-1/")

    def read(listed: Any) -> bytes:
        content = store.read(bucket + listed["key"])
        assert (len(content), content.count(b"\n")) == (listed["bytes"], listed["lines"])
        return content

    results = b"".join(map(read, manifest["results"]))
    errors = read(manifest["errors"]) if manifest["errors"] else b""
    return Made(results, errors, manifest, finished)


class Memory:
    """A store of bytes.

    Attributes:
        objects: What it holds.
        on_call: Called before each use of it.
    """

    def __init__(self, **objects: bytes) -> None:
        self.objects = objects
        self.on_call: Callable[[], None] = lambda: None

    def stat(self, name: str) -> Stat:
        """An object's size and etag."""
        self.on_call()
        content = self._content(name)
        return Stat(len(content), f"{hash(content)}")

    def has(self, name: str) -> bool:
        """Whether there is an object."""
        self.on_call()
        return name in self.objects

    def names(self, prefix: str) -> Iterator[str]:
        """The names that begin with a prefix."""
        self.on_call()
        return iter(sorted(name for name in self.objects if name.startswith(prefix)))

    def read(self, name: str, *, most: int | None = None) -> bytes:
        """A whole object."""
        self.on_call()
        content = self._content(name)
        if most is not None and len(content) > most:
            raise TooLarge
        return content

    def read_range(self, name: str, start: int, end: int, *, etag: str) -> bytes:
        """Some of an object."""
        if self.stat(name).etag != etag:
            raise Changed(f"{name} was replaced")
        return self.objects[name][start:end]

    def write(self, name: str, content: bytes) -> None:
        """Put an object."""
        self.on_call()
        self.objects[name] = content

    def write_all(self, name: str, contents: Iterable[bytes]) -> int:
        """Put an object, piece by piece."""
        content = b"".join(contents)
        self.write(name, content)
        return len(content)

    def _content(self, name: str) -> bytes:
        if name not in self.objects:
            raise NotFound(f"{name} is not there")
        return self.objects[name]


def run_here(content: bytes, *, part_bytes: int = 1 << 20, most: int = MOST) -> Made:
    """Do a job in memory."""
    store = Memory(**{"bucket/in.jsonl": content})
    of = job(store, "bucket/in.jsonl", "bucket/out/job-1/", part_bytes)
    derender(worker(store, most=most), of)
    return conclude(store, of)


# --- S3 -------------------------------------------------------------------------------------------------------


class Death(BaseException):
    """The worker's process ends: nothing in it catches this."""


class Bucket:
    """A bucket, through a client that tries each request once.

    Attributes:
        store: The store.
        on_call: Called before each request, with the operation and its parameters; what it raises ends the
            request. What it returns, if anything, is the error that S3 answers with: status and code.
        calls: The operations so far.
    """

    def __init__(self) -> None:
        config = Config(retries={"mode": "standard", "total_max_attempts": 1})
        self.client = SESSION.client("s3", REGION, config=config)
        self._other = SESSION.client("s3", REGION)
        self.client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        self.store = S3Store(self.client)
        self.on_call: Callable[[str, Any], tuple[int, str] | None] = lambda _operation, _parameters: None
        self.calls: list[tuple[str, Any]] = []
        self.client.meta.events.register("provide-client-params.s3", self._note)
        self.client.meta.events.register("before-call.s3", self._call)  # type: ignore[arg-type] # it may answer
        self._parameters: Any = None

    def put(self, key: str, body: bytes) -> str:
        """Store an object; its name."""
        self._other.put_object(Bucket=BUCKET, Key=key, Body=body)
        return f"s3://{BUCKET}/{key}"

    def job(self, content: bytes, part_bytes: int = 1 << 20) -> Job:
        """A job of an input."""
        return job(self.store, self.put("in.jsonl", content), f"s3://{BUCKET}/out/job-1/", part_bytes)

    def objects(self, prefix: str = "out/") -> dict[str, bytes]:
        """Key → content."""
        found = self._other.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        keys = [each["Key"] for each in found]
        return {key: self._other.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}

    def _note(self, params: Any, **_: object) -> None:
        self._parameters = params

    def _call(self, model: Any, **_: object) -> tuple[Any, Any] | None:
        self.calls.append((model.name, self._parameters))
        error = self.on_call(model.name, self._parameters)
        if error is None:
            return None
        status, code = error
        return SimpleNamespace(status_code=status), {
            "Error": {"Code": code, "Message": "no"},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }
