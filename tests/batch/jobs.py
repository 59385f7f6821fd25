"""Jobs that run in this process, on a store in memory."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from derender.batch import References, Worker
from derender.batch.job import Job
from derender.batch.steps.derender import derender_part
from derender.batch.steps.finish import finish_job
from derender.batch.stores.store import Changed, NotFound, Stat, TooLarge
from derender.models.layer import load_models
from derender.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from derender.batch.stores.store import Store
    from derender.models.model import Models
    from derender.telemetry.tally import Tally

__all__ = [
    "CREATED",
    "MAX_LINE",
    "Made",
    "Memory",
    "conclude",
    "derender",
    "make_job",
    "make_worker",
    "run_job",
]

CREATED: Final = 1_767_323_045
MAX_LINE: Final = 64 * 1024
"""Most bytes of a line that these workers take."""


@cache
def models() -> Models:
    """Return the bundled vocabulary, served."""
    return load_models(Settings.from_environment({}))


class Made(NamedTuple):
    """What a job has made."""

    results: bytes
    errors: bytes
    manifest: Any
    finished: Any

    @property
    def outputs(self) -> list[Any]:
        """All output lines, in the order of the input."""
        found = [json.loads(each) for each in (self.results + self.errors).splitlines()]
        return sorted(found, key=lambda output: output["id"])


def make_job(store: Store, name: str, output: str = "bucket/out/job-1/", part_bytes: int = 1 << 20) -> Job:
    """Return a job of an input in a store."""
    size, etag = store.stat(name)
    return Job(name, output, "job-1", CREATED, etag, size, part_bytes)


def make_worker(
    store: Store, *, max_line: int = MAX_LINE, max_references: int = 1000, references: Store | None = None
) -> Worker:
    """Return a worker that serves the bundled model."""
    return Worker(
        store,
        models(),
        max_body_bytes=max_line,
        max_sequences=max_references,
        references=References(lambda: references or store, max_line),
    )


def derender(worker: Worker, job: Job, *, is_late: Callable[[], bool] = lambda: False) -> list[Tally]:
    """Derender all parts of a job, and return the tallies of its pieces."""
    tallies: list[Tally] = []
    for start in job.starts:
        offset: int | None = start
        while offset is not None:
            offset = derender_part(worker, job, offset, is_late=is_late, observe=tallies.append).next
    return tallies


def conclude(store: Store, job: Job) -> Made:
    """Finish a job whose parts are derendered, and read what it has made."""
    finished = finish_job(store, job)
    manifest = json.loads(store.read(f"{job.output}manifest.json"))
    bucket = job.output.removesuffix("out/job-1/")

    def read(listed: Any) -> bytes:
        content = store.read(bucket + listed["key"])
        assert (len(content), content.count(b"\n")) == (listed["bytes"], listed["lines"])
        return content

    results = b"".join(map(read, manifest["results"]))
    errors = read(manifest["errors"]) if manifest["errors"] else b""
    return Made(results, errors, manifest, finished)


def run_job(content: bytes, *, part_bytes: int = 1 << 20, max_line: int = MAX_LINE) -> Made:
    """Run a job in memory."""
    store = Memory(**{"bucket/in.jsonl": content})
    job = make_job(store, "bucket/in.jsonl", part_bytes=part_bytes)
    derender(make_worker(store, max_line=max_line), job)
    return conclude(store, job)


class Memory:
    """A store in memory.

    Attributes:
        objects: Name → content.
        on_call: Called before each use.
    """

    def __init__(self, **objects: bytes) -> None:
        self.objects = objects
        self.on_call: Callable[[], None] = lambda: None

    def stat(self, name: str) -> Stat:
        """Return an object's size and etag."""
        self.on_call()
        content = self._find(name)
        return Stat(len(content), f"{hash(content)}")

    def exists(self, name: str) -> bool:
        """Return whether an object exists."""
        self.on_call()
        return name in self.objects

    def list_names(self, prefix: str) -> Iterator[str]:
        """Return the names that start with a prefix."""
        self.on_call()
        return iter(sorted(name for name in self.objects if name.startswith(prefix)))

    def read(self, name: str, *, max_bytes: int | None = None) -> bytes:
        """Return an object."""
        self.on_call()
        content = self._find(name)
        if max_bytes is not None and len(content) > max_bytes:
            raise TooLarge
        return content

    def read_range(self, name: str, start: int, end: int, *, etag: str) -> bytes:
        """Return some bytes of an object."""
        if self.stat(name).etag != etag:
            raise Changed(f"{name} was replaced")
        return self.objects[name][start:end]

    def write(self, name: str, content: bytes) -> None:
        """Write an object."""
        self.on_call()
        self.objects[name] = content

    def write_chunks(self, name: str, chunks: Iterable[bytes]) -> int:
        """Write an object from chunks."""
        content = b"".join(chunks)
        self.write(name, content)
        return len(content)

    def _find(self, name: str) -> bytes:
        if name not in self.objects:
            raise NotFound(f"{name} does not exist")
        return self.objects[name]
