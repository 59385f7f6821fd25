"""The end of a job: what its pieces hold is checked, made unique, counted, and listed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from .ahead import AHEAD, AT_ONCE, map_ahead
from .custom_ids import custom_ids
from .errors import BatchError
from .job import Job
from .outputs import as_duplicate, key_of, tokens_of
from .records import Counts, Extent, Moved, read_record
from .stores import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .custom_ids import CustomIds
    from .records import Record
    from .stores import Store

__all__ = ["Manifest", "ObjectLines", "Pieces", "Settled", "finish", "join", "manifest", "settle"]

MOST_KEPT: Final = 64 * 1024 * 1024
"""Bytes of pieces that are in memory while they are joined; a larger piece is there alone."""


class Settled(NamedTuple):
    """A piece as it stays."""

    start: int
    results: Extent
    errors: Extent


class Pieces(NamedTuple):
    """All of a job."""

    pieces: list[Settled]
    counts: Counts


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
    """Finish a job whose parts are done. Done again, it writes the same.

    Returns:
        Where the manifest is, and the most important of it.

    Raises:
        BatchError: Some of the input is in no piece, or in two.
        StoreError: Something can't be read or written.
    """
    pieces, counts = settle(store, job)
    results = [
        ObjectLines(_key(job.results_name(piece.start)), piece.results.bytes, piece.results.lines)
        for piece in pieces
        if piece.results.lines
    ]
    errors, name = None, f"{job.output}errors.jsonl"
    if sum(counts.failed.values()):
        joined = join(store, [(job.errors_name(piece.start), piece.errors) for piece in pieces], name)
        errors = ObjectLines(_key(name), joined.bytes, joined.lines)
    made = manifest(job, counts, results, errors)
    name = f"{job.output}manifest.json"
    store.write(name, msgspec.json.encode(made) + b"\n")
    return {
        "manifest": name,
        "counts": msgspec.to_builtins(made.counts),
        "usage": msgspec.to_builtins(made.usage),
    }


def settle(store: Store, job: Job) -> Pieces:
    """Check that the pieces have each line once, and make errors of answers whose `custom_id` was used before.

    Raises:
        BatchError: Some of the input is in no piece, or in two.
        StoreError: Something can't be read or written.
    """
    pieces, counts, at = list[Settled](), Counts(), 0
    with TemporaryDirectory() as folder, custom_ids(Path(folder)) as used:
        for record in _records(store, job):
            if record.start != at:
                raise _miscut(at, record.start)
            at = record.end
            piece, moved = _settle(store, job, record, used)
            pieces.append(piece)
            counts += record.counts
            if moved.lines:
                counts += Counts(
                    completed=-moved.lines,
                    failed={"duplicate_custom_id": moved.lines},
                    prompt_tokens=-moved.prompt_tokens,
                    completion_tokens=-moved.completion_tokens,
                )
    if at != job.size:
        raise _miscut(at, job.size)
    return Pieces(pieces, counts)


def join(store: Store, pieces: Iterable[tuple[str, Extent]], name: str) -> Extent:
    """Make one object of several.

    Args:
        store: Where they are.
        pieces: Their names, and what they hold.
        name: The name of the one.

    Returns:
        What it holds.
    """
    filled = [(name, extent) for name, extent in pieces if extent.lines]
    ahead = max(1, min(AHEAD, MOST_KEPT // max((extent.bytes for _, extent in filled), default=1)))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        size = store.write_all(name, map_ahead(threads, store.read, (name for name, _ in filled), ahead=ahead))
    return Extent(size, sum(extent.lines for _, extent in filled))


def manifest(job: Job, counts: Counts, results: list[ObjectLines], errors: ObjectLines | None) -> Manifest:
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
        for record in map_ahead(threads, partial(read_record, store), store.names(job.records)):
            # Others are of a job that was written to the same place.
            if record.job == job.digest:
                yield record


def _settle(store: Store, job: Job, record: Record, used: CustomIds) -> tuple[Settled, Moved]:
    repeated = used.add(record.custom_ids)
    unmoved = Settled(record.start, record.results, record.errors), Moved()
    if not repeated:
        return unmoved
    results = _lines(store, job.results_name(record.start))
    errors = _lines(store, job.errors_name(record.start))
    offsets = {job.line_id(offset).encode(): offset for offset in repeated}
    answered = {key: line for key, line in results.items() if key in offsets}
    moved = record.moved
    if moved is None:
        if not answered:
            return unmoved
        # Written first: afterwards their tokens are nowhere.
        tokens = [tokens_of(line) for line in answered.values()]
        moved = Moved(len(tokens), sum(each.prompt for each in tokens), sum(each.completion for each in tokens))
        store.write(job.record_name(record.start), msgspec.json.encode(replace(record, moved=moved)))
    kept = {key: line for key, line in results.items() if key not in answered}
    duplicates = {key: as_duplicate(job, offsets[key], line) for key, line in answered.items()}
    refused = {key: line for key, line in (errors | duplicates).items() if key not in kept}
    # And these before those: a line that is in neither object is lost.
    _write(store, job.errors_name(record.start), refused)
    _write(store, job.results_name(record.start), kept)
    return Settled(record.start, _extent(kept), _extent(refused)), moved


def _lines(store: Store, name: str) -> dict[bytes, bytes]:
    """Output lines by what they sort by; none where there is no object."""
    try:
        content = store.read(name)
    except NotFound:
        return {}
    return {key_of(line): line + b"\n" for line in content.split(b"\n") if line}


def _write(store: Store, name: str, lines: dict[bytes, bytes]) -> None:
    store.write(name, b"".join(lines[key] for key in sorted(lines)))


def _extent(lines: dict[bytes, bytes]) -> Extent:
    return Extent(sum(map(len, lines.values())), len(lines))


def _miscut(expected: int, found: int) -> BatchError:
    if found > expected:
        return BatchError(f"byte {expected} of the input is in no piece: not all of its parts were derendered")
    return BatchError(f"byte {found} of the input is in two pieces: start the job again, as another")


def _key(name: str) -> str:
    return name.removeprefix("s3://").partition("/")[2]
