"""The end of a job: what its pieces hold is checked, made unique, counted, and listed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from derender.telemetry.tally import NOTHING, Tally

from .ahead import AHEAD, AT_ONCE, map_ahead
from .custom_ids import custom_ids
from .errors import BatchError
from .job import Job
from .outputs import as_duplicate, key_of, tally_of
from .records import Extent, damaged, read_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .custom_ids import CustomIds
    from .records import Record
    from .stores import Store

__all__ = ["Held", "Manifest", "ObjectLines", "Pieces", "Settled", "finish", "join", "manifest", "settle"]

MOST_KEPT: Final = 64 * 1024 * 1024
"""Bytes of pieces that are in memory while they are joined; a larger piece is there alone."""


class Held(NamedTuple):
    """An object, and what it holds. There is none where that is nothing."""

    name: str
    extent: Extent


class Settled(NamedTuple):
    """A piece as it stays."""

    results: Held
    errors: Held


class Pieces(NamedTuple):
    """All of a job."""

    pieces: list[Settled]
    counts: Tally


class ObjectLines(msgspec.Struct, frozen=True):
    """An object of output lines."""

    key: str
    """Its key in the bucket of the manifest; of a file its name beside the manifest."""
    bytes: int
    lines: int


class RequestCounts(msgspec.Struct, frozen=True):
    """How many lines there were, as OpenAI's batches count them."""

    total: int
    completed: int
    failed: int


class Usage(msgspec.Struct, frozen=True):
    """Tokens of all answers."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Manifest(msgspec.Struct, frozen=True):
    """What a job has made."""

    job: Job
    counts: RequestCounts
    failures: dict[str, int]
    """Kind of error → lines."""
    usage: Usage
    results: list[ObjectLines]
    """One after the other they have the results in the order of the input."""
    errors: ObjectLines | None


def finish(store: Store, job: Job) -> dict[str, Any]:
    """Finish a job whose parts are done.

    What workers have written is only read, and all that is written is made of it alone. So this may be done
    again, also at the same time, and a worker that comes late may write its objects again: all stays the same.

    Returns:
        Where the manifest is, and the most important of it.

    Raises:
        BatchError: Some of the input is in no piece, or in two; or a piece is not as it was written.
        StoreError: Something can't be read or written.
    """
    pieces, counts = settle(store, job)
    results = [_listed(piece.results) for piece in pieces if piece.results.extent.lines]
    name = f"{job.output}errors.jsonl"
    # Written also where there are none: that of a job before is not left to mislead, and can't be deleted.
    errors = Held(name, join(store, [piece.errors for piece in pieces], name))
    made = manifest(job, counts, results, _listed(errors) if errors.extent.lines else None)
    name = f"{job.output}manifest.json"
    store.write(name, msgspec.json.encode(made) + b"\n")
    return {
        "manifest": name,
        "counts": msgspec.to_builtins(made.counts),
        "usage": msgspec.to_builtins(made.usage),
    }


def settle(store: Store, job: Job) -> Pieces:
    """Check that the pieces have each line once, and make errors of answers whose `custom_id` was used before.

    A piece that has such answers is written once more, under other names and without them.

    Raises:
        BatchError: Some of the input is in no piece, or in two; or a piece is not as it was written.
        StoreError: Something can't be read or written.
    """
    pieces, counts, at = list[Settled](), NOTHING, 0
    with TemporaryDirectory() as folder, custom_ids(Path(folder)) as used:
        for record in _records(store, job):
            if record.start != at:
                raise _miscut(at, record.start)
            at = record.end
            piece, changed = _settle(store, job, record, used)
            pieces.append(piece)
            counts += record.tally + changed
    if at != job.size:
        raise _miscut(at, job.size)
    return Pieces(pieces, counts)


def join(store: Store, pieces: Iterable[Held], name: str) -> Extent:
    """Make one object of several.

    Args:
        store: Where they are.
        pieces: The several.
        name: The name of the one.

    Returns:
        What it holds.

    Raises:
        BatchError: One does not hold what it should.
        StoreError: Something can't be read or written.
    """
    filled = [piece for piece in pieces if piece.extent.lines]
    ahead = max(1, min(AHEAD, MOST_KEPT // max((piece.extent.bytes for piece in filled), default=1)))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        size = store.write_all(name, map_ahead(threads, partial(_read, store), filled, ahead=ahead))
    return Extent(size, sum(piece.extent.lines for piece in filled))


def manifest(job: Job, counts: Tally, results: list[ObjectLines], errors: ObjectLines | None) -> Manifest:
    """The manifest of a job."""
    failed = sum(counts.failed.values())
    prompt, completion = counts.prompt_tokens, counts.completion_tokens
    return Manifest(
        job,
        RequestCounts(counts.requests, counts.completed, failed),
        counts.failed,
        Usage(prompt, completion, prompt + completion),
        results,
        errors,
    )


def _records(store: Store, job: Job) -> Iterator[Record]:
    """The job's records, in order."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for record in map_ahead(threads, partial(_record, store, job), store.names(job.records)):
            if record is not None:
                yield record


def _record(store: Store, job: Job, name: str) -> Record | None:
    """A record, whose objects are there; None for that of a job that was written to the same place."""
    record = read_record(store, name)
    if record.job != job.digest:
        return None
    if (gone := damaged(store, job, record)) is not None:
        raise _damaged(gone)
    return record


def _settle(store: Store, job: Job, record: Record, used: CustomIds) -> tuple[Settled, Tally]:
    """A piece, and what its counts change by."""
    results = Held(job.results_name(record.start), record.results)
    errors = Held(job.errors_name(record.start), record.errors)
    offsets = {job.line_id(offset).encode(): offset for offset in used.add(record.custom_ids)}
    answered = _lines(store, results) if offsets else {}
    repeated = {key: line for key, line in answered.items() if key in offsets}
    if not repeated:
        return Settled(results, errors), NOTHING
    answers = sum((tally_of(line) for line in repeated.values()), NOTHING)
    changed = Tally(
        failed={"duplicate_custom_id": len(repeated)},
        prompt_tokens=-answers.prompt_tokens,
        completion_tokens=-answers.completion_tokens,
    )
    kept = {key: line for key, line in answered.items() if key not in repeated}
    duplicates = {key: as_duplicate(job, offsets[key], line) for key, line in repeated.items()}
    refused = _lines(store, errors) | duplicates
    settled = Settled(
        _write(store, job.settled_name(record.start), kept),
        _write(store, job.settled_errors_name(record.start), refused),
    )
    return settled, changed


def _read(store: Store, piece: Held) -> bytes:
    content = store.read(piece.name)
    if piece.extent != Extent(len(content), content.count(b"\n")):
        raise _damaged(piece.name)
    return content


def _lines(store: Store, piece: Held) -> dict[bytes, bytes]:
    """Output lines by what they sort by."""
    if not piece.extent.lines:
        return {}
    return {key_of(line): line for line in _read(store, piece).splitlines(keepends=True)}


def _write(store: Store, name: str, lines: dict[bytes, bytes]) -> Held:
    content = b"".join(lines[key] for key in sorted(lines))
    if lines:
        store.write(name, content)
    return Held(name, Extent(len(content), len(lines)))


def _listed(piece: Held) -> ObjectLines:
    return ObjectLines(
        piece.name.removeprefix("s3://").partition("/")[2], piece.extent.bytes, piece.extent.lines
    )


def _damaged(name: str) -> BatchError:
    return BatchError(
        f"{name} is not there, or not as it was written: start the job over, here with --restart, in AWS as "
        "another"
    )


def _miscut(expected: int, found: int) -> BatchError:
    if found > expected:
        return BatchError(f"byte {expected} of the input is in no piece: not all of its parts were derendered")
    return BatchError(f"byte {found} of the input is in two pieces: start the job again, as another")
