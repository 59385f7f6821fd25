"""The record of a piece: what was made of the lines that begin in it. A piece is done once it has one."""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from derender.protocol.json_errors import JSON_ERRORS
from derender.telemetry.tally import NOTHING, Tally

from .errors import BatchError
from .stores import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .job import Job
    from .outputs import Output
    from .stores import Store

__all__ = [
    "Extent",
    "Record",
    "damaged",
    "find_record",
    "read_custom_ids",
    "read_record",
    "record",
]

_CUSTOM_ID: Final = struct.Struct(">Q12s")
"""Where a line begins, and the digest of its `custom_id`. Of 10⁸ ids two are alike once in 10¹³ jobs."""


class Extent(msgspec.Struct, frozen=True):
    """How much an object holds."""

    bytes: int = 0
    lines: int = 0


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a piece."""

    job: str
    """The job's digest."""
    start: int
    """The lines are those that begin from here, in bytes,"""
    end: int
    """to before here."""
    results: Extent
    errors: Extent
    tally: Tally
    custom_ids: bytes
    """For each line that has one: `_CUSTOM_ID`."""


_decoder = msgspec.json.Decoder(Record)


def record(job: Job, start: int, end: int, outputs: Sequence[Output]) -> Record:
    """The record of some lines."""
    return Record(
        job=job.digest,
        start=start,
        end=end,
        results=_extent(output for output in outputs if output.error is None),
        errors=_extent(output for output in outputs if output.error is not None),
        tally=sum((output.tally for output in outputs), NOTHING),
        custom_ids=b"".join(
            _CUSTOM_ID.pack(output.offset, blake2b(output.custom_id.encode(), digest_size=12).digest())
            for output in outputs
            if output.custom_id is not None
        ),
    )


def read_custom_ids(packed: bytes) -> Iterator[tuple[int, bytes]]:
    """A record's custom ids: where the line begins, and the id's digest."""
    return _CUSTOM_ID.iter_unpack(packed)


def read_record(store: Store, name: str) -> Record:
    """A record that is there.

    Raises:
        BatchError: It is none, whoever wrote it.
    """
    try:
        found = _decoder.decode(store.read(name))
    except JSON_ERRORS:
        found = None
    if (
        found is None
        or not name.endswith(f"/{found.start:015d}.json")
        or found.end <= found.start
        or len(found.custom_ids) % _CUSTOM_ID.size
    ):
        raise BatchError(f"{name} is no record of a piece: remove it, or start the job over as another")
    return found


def damaged(store: Store, job: Job, of: Record) -> str | None:
    """The name of an object of a piece that is not there, or not as long as it was; None where all are."""
    objects = (job.results_name(of.start), of.results), (job.errors_name(of.start), of.errors)
    return next((name for name, extent in objects if not _is_whole(store, name, extent)), None)


def _is_whole(store: Store, name: str, extent: Extent) -> bool:
    # Where it has no lines, one that is there is another job's, or of a worker that wrote no record.
    if not extent.lines:
        return True
    try:
        return store.stat(name).size == extent.bytes
    except NotFound:
        return False


def find_record(store: Store, job: Job, start: int) -> Record | None:
    """The record of the piece that begins there, if it is done and all of it is there."""
    name = job.record_name(start)
    if not store.has(name):
        return None
    try:
        found = read_record(store, name)
    except BatchError:
        return None  # it is written again
    return found if found.job == job.digest and damaged(store, job, found) is None else None


def _extent(outputs: Iterable[Output]) -> Extent:
    lengths = [len(output.content) for output in outputs]
    return Extent(sum(lengths), len(lengths))
