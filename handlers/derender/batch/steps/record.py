"""Records of pieces. A piece is finished once its record is written."""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from derender.batch.errors import BatchError
from derender.batch.stores.store import NotFound
from derender.protocol.json_errors import JSON_ERRORS
from derender.telemetry.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from derender.batch.job import Job
    from derender.batch.lines.output_lines import OutputLine
    from derender.batch.stores.store import Store

__all__ = [
    "Content",
    "Extent",
    "Piece",
    "Record",
    "find_damage",
    "find_record",
    "measure",
    "read_custom_ids",
    "read_record",
    "write_piece",
]

_CUSTOM_ID: Final = struct.Struct(">Q12s")
"""Offset of a line, and digest of its `custom_id`. Of 10⁸ ids, two have the same digest once in 10¹³ jobs."""


class Piece(NamedTuple):
    """Output lines of the input lines that begin in a byte range."""

    start: int
    end: int
    outputs: list[OutputLine]


class Extent(msgspec.Struct, frozen=True):
    """Size of output lines."""

    bytes: int = 0
    lines: int = 0


class Content(Extent, frozen=True):
    """An object of output lines, as it must be."""

    digest: str = ""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a piece.

    Attributes:
        job: Digest of the job.
        start: Start of the piece's byte range.
        end: End of the range.
        results: Its results.
        errors: Its errors.
        tally: Tally of its lines.
        custom_ids: `_CUSTOM_ID` of each line that has one.
        digest: Digest of the record without it.
    """

    job: str
    start: int
    end: int
    results: Content
    errors: Content
    tally: Tally
    custom_ids: bytes
    digest: str = ""

    def signed(self) -> Record:
        """Return the record with its digest."""
        return replace(self, digest=_digest(msgspec.json.encode(replace(self, digest=""))))


_decoder = msgspec.json.Decoder(Record)


def write_piece(store: Store, job: Job, piece: Piece) -> Record:
    """Write the output lines of a piece, then its record, and return that."""
    results = [output.content for output in piece.outputs if output.error is None]
    errors = [output.content for output in piece.outputs if output.error is not None]
    if results:
        store.write(job.lines_name("results", piece.start), b"".join(results))
    if errors:
        store.write(job.lines_name("errors", piece.start), b"".join(errors))
    record = Record(
        job=job.digest,
        start=piece.start,
        end=piece.end,
        results=measure(b"".join(results)),
        errors=measure(b"".join(errors)),
        tally=sum((output.tally for output in piece.outputs), Tally(requests=len(piece.outputs))),
        custom_ids=b"".join(
            _CUSTOM_ID.pack(output.offset, blake2b(output.custom_id.encode(), digest_size=12).digest())
            for output in piece.outputs
            if output.custom_id is not None
        ),
    ).signed()
    store.write(job.record_name(piece.start), msgspec.json.encode(record))
    return record


def find_record(store: Store, job: Job, start: int) -> Record | None:
    """Return the record of the piece that begins at an offset, if the piece is finished and undamaged."""
    name = job.record_name(start)
    if not store.exists(name):
        return None
    try:
        record = read_record(store, name)
    except BatchError:
        return None  # the piece is written again
    if record.job != job.digest or find_damage(store, job, record, matches=_is_unchanged) is not None:
        return None
    return record


def read_record(store: Store, name: str) -> Record:
    """Return a record that exists.

    Raises:
        BatchError: The object is no record.
    """
    try:
        record = _decoder.decode(store.read(name))
    except JSON_ERRORS:
        record = None
    if (
        record is None
        or record != record.signed()
        or not name.endswith(f"/{record.start:015d}.json")
        or record.end <= record.start
        or len(record.custom_ids) % _CUSTOM_ID.size
    ):
        raise BatchError(f"{name} is no record of a piece: remove it, or start another job")
    return record


def read_custom_ids(packed: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the offset of each line and the digest of its `custom_id`, from a record."""
    return _CUSTOM_ID.iter_unpack(packed)


def find_damage(
    store: Store, job: Job, record: Record, *, matches: Callable[[Store, str, Content], bool] | None = None
) -> str | None:
    """Return the name of an object of a piece that is missing or was changed, or None if all are whole.

    Args:
        store: The store.
        job: The job.
        record: The record of the piece.
        matches: Compares an object with what it must be, by default only by its size.
    """
    matches = matches or _has_size
    objects = (
        (job.lines_name("results", record.start), record.results),
        (job.lines_name("errors", record.start), record.errors),
    )
    # An object where no lines are expected is another job's, or of a worker that died before its record.
    return next(
        (name for name, content in objects if content.lines and not matches(store, name, content)), None
    )


def measure(content: bytes) -> Content:
    """Describe output lines."""
    return Content(len(content), content.count(b"\n"), _digest(content))


def _has_size(store: Store, name: str, content: Content) -> bool:
    try:
        return store.stat(name).size == content.bytes
    except NotFound:
        return False


def _is_unchanged(store: Store, name: str, content: Content) -> bool:
    try:
        return measure(store.read(name)) == content
    except NotFound:
        return False


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
