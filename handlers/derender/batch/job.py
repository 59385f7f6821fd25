"""A job: an input, cut into byte ranges for workers, and the names of what is made of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from .errors import BatchError

if TYPE_CHECKING:
    from .stores import Store

__all__ = ["Job", "is_uri", "plan", "read_time"]

MOST_PARTS: Final = 10_000
"""Their starts are 130 KB of JSON at most; Step Functions takes 256 KB."""
LEAST_PART: Final = 1024 * 1024
_URI: Final = re.compile(rb"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/(?s:.){1,1024}")
"""In UTF-8, of whose bytes a key has at most 1,024."""
_ID: Final = re.compile(r"(?!\.+$)[^/\x00-\x1f\x7f\ud800-\udfff]{1,80}")

Natural = Annotated[int, msgspec.Meta(ge=0)]


class Job(msgspec.Struct, frozen=True):
    """What workers are told: all that outputs depend on, but for the models and what lines refer to."""

    input: str
    """Name of the JSON lines."""
    output: str
    """What the names of all that is written begin with: a folder of the job's own, with its slash."""
    id: str
    created: Natural
    """Unix time in seconds at which it was started: that of all answers."""
    etag: str
    """The input's, when it was planned."""
    size: Natural
    """The input's, in bytes."""
    part_bytes: Annotated[int, msgspec.Meta(ge=1)]

    @property
    def digest(self) -> str:
        """Tells jobs apart that write to the same place."""
        told = (self.id, self.created, self.etag, self.size, self.part_bytes)
        return blake2b(msgspec.json.encode(told), digest_size=16).hexdigest()

    @property
    def starts(self) -> range:
        """Where the parts begin."""
        return range(0, self.size, self.part_bytes)

    def part_end(self, offset: int) -> int:
        """Where the part ends that a byte is in."""
        return min((offset // self.part_bytes + 1) * self.part_bytes, self.size)

    def line_id(self, offset: int) -> str:
        """A line's id: 16 hexadecimal digits of the job, 12 of the line's place. Ids sort as lines do."""
        return f"{blake2b(self.id.encode(), digest_size=8).hexdigest()}{offset:012x}"

    def results_name(self, start: int) -> str:
        """The results of the piece that begins there."""
        return f"{self.output}results/{start:015d}.jsonl"

    def errors_name(self, start: int) -> str:
        """Its errors."""
        return f"{self.output}errors/{start:015d}.jsonl"

    def settled_name(self, start: int) -> str:
        """Its results without duplicates, where it has any."""
        return f"{self.output}settled/results/{start:015d}.jsonl"

    def settled_errors_name(self, start: int) -> str:
        """Its errors with those duplicates."""
        return f"{self.output}settled/errors/{start:015d}.jsonl"

    def record_name(self, start: int) -> str:
        """Its record."""
        return f"{self.records}{start:015d}.json"

    @property
    def records(self) -> str:
        """What the names of records begin with."""
        return f"{self.output}records/"


def plan(store: Store, name: str, output: str, job_id: str, created: int) -> Job:
    """Cut an input into parts.

    Args:
        store: Where it is.
        name: Its name.
        output: A folder for what is made of it.
        job_id: The job's.
        created: When it was started, in Unix time.

    Raises:
        NotFound: There is no input.
        BatchError: The id is none.
    """
    if not _ID.fullmatch(job_id):
        raise BatchError("the job's id is 1 to 80 characters, without slashes")
    size, etag = store.stat(name)
    part_bytes = max(LEAST_PART, -(-size // MOST_PARTS))
    return Job(name, output, job_id, created, etag, size, part_bytes)


def is_uri(name: str) -> bool:
    """Whether it is `s3://bucket/key`."""
    try:
        return _URI.fullmatch(name.encode()) is not None
    except UnicodeEncodeError:
        return False


def read_time(text: str) -> int:
    """A time as Step Functions writes it → Unix time in seconds.

    Raises:
        BatchError: It is none, or before 1970.
    """
    try:
        time = datetime.fromisoformat(text)
        seconds = int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        seconds = -1
    if seconds < 0:
        raise BatchError("started: a time since 1970 is needed, as 2026-01-31T09:30:00Z is")
    return seconds
