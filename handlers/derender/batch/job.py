"""A job: an input, cut into byte ranges for workers, and the names of the objects that it makes."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Annotated, Final, Literal

import msgspec

__all__ = ["Job", "is_s3_uri"]

_S3_URI: Final = re.compile(rb"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/(?s:.){1,1024}")
"""In UTF-8: a key has at most 1,024 bytes."""

LinesKind = Literal["results", "errors", "settled/results", "settled/errors"]
"""Folder of an object of output lines.

Workers write `results` and `errors`. If answers turn out to be duplicates, `settled/…` replaces both.
"""
Natural = Annotated[int, msgspec.Meta(ge=0)]


class Job(msgspec.Struct, frozen=True):
    """A job, as workers receive it. Output lines depend on it, the models, and what the input refers to.

    Attributes:
        input: Name of the JSON lines.
        output: Prefix of everything that is written: a folder of the job's own, with a trailing slash.
        id: The job's id.
        created: Unix time at which it was started; `created` of all answers.
        etag: Etag of the input when the job was planned.
        size: Bytes of the input.
        part_bytes: Bytes of a part.
    """

    input: str
    output: str
    id: str
    created: Natural
    etag: str
    size: Natural
    part_bytes: Annotated[int, msgspec.Meta(ge=1)]

    @property
    def digest(self) -> str:
        """A digest that differs between jobs that write to the same place."""
        identity = (self.id, self.created, self.etag, self.size, self.part_bytes)
        return blake2b(msgspec.json.encode(identity), digest_size=16).hexdigest()

    @property
    def starts(self) -> range:
        """Offsets at which parts begin."""
        return range(0, self.size, self.part_bytes)

    def part_end(self, offset: int) -> int:
        """Return the end of the part that holds a byte."""
        return min((offset // self.part_bytes + 1) * self.part_bytes, self.size)

    def line_id(self, offset: int) -> str:
        """Return a line's id: 16 hexadecimal digits of the job, 12 of the offset. Ids sort as lines do."""
        return f"{blake2b(self.id.encode(), digest_size=8).hexdigest()}{offset:012x}"

    def lines_name(self, kind: LinesKind, start: int) -> str:
        """Return the name of the output lines of the piece that begins at an offset."""
        return f"{self.output}{kind}/{start:015d}.jsonl"

    def record_name(self, start: int) -> str:
        """Return the name of the record of the piece that begins at an offset."""
        return f"{self.records}{start:015d}.json"

    @property
    def records(self) -> str:
        """Prefix of the names of records."""
        return f"{self.output}records/"


def is_s3_uri(name: str) -> bool:
    """Return whether a name is `s3://bucket/key`."""
    try:
        return _S3_URI.fullmatch(name.encode()) is not None
    except UnicodeEncodeError:
        return False
