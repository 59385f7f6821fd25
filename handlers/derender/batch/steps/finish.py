"""The last step: check the pieces of a job, refuse duplicates, and list everything in a manifest.

It only reads what workers write, and what it writes depends on that alone. So it may run again, even at the
same time, and a late worker may write its objects again: the outcome is the same.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from derender.batch.errors import BatchError
from derender.batch.lines.output_lines import count_answer, refuse_duplicate, sort_key
from derender.batch.stores.prefetch import MAX_AHEAD, THREADS, map_ahead
from derender.telemetry.tally import NOTHING, Tally

from .custom_ids import open_index
from .manifest import ListedLines, make_manifest
from .record import Extent, find_damage, measure, read_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from derender.batch.job import Job
    from derender.batch.stores.store import Store

    from .custom_ids import CustomIds
    from .record import Record

__all__ = ["LinesObject", "SettledPiece", "finish_job", "join_lines", "settle_pieces"]

MAX_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of pieces in memory while they are joined. A larger piece is there alone."""


class LinesObject(NamedTuple):
    """An object of output lines. It does not exist if it has no lines."""

    name: str
    extent: Extent


class SettledPiece(NamedTuple):
    """The final output lines of a piece."""

    results: LinesObject
    errors: LinesObject


def finish_job(store: Store, job: Job) -> dict[str, Any]:
    """Finish a job whose parts are derendered.

    Returns:
        The name of the manifest, its counts and its usage.

    Raises:
        BatchError: Some of the input is in no piece or in two, or a piece is damaged.
        StoreError: An object can't be read or written.
    """
    pieces, tally = settle_pieces(store, job)
    results = [_list(piece.results) for piece in pieces if piece.results.extent.lines]
    name = f"{job.output}errors.jsonl"
    # Written even if empty: an earlier job may have left one, which can't be deleted.
    errors = LinesObject(name, join_lines(store, [piece.errors for piece in pieces], name))
    manifest = make_manifest(job, tally, results, _list(errors) if errors.extent.lines else None)
    name = f"{job.output}manifest.json"
    store.write(name, msgspec.json.encode(manifest) + b"\n")
    return {
        "manifest": name,
        "counts": msgspec.to_builtins(manifest.counts),
        "usage": msgspec.to_builtins(manifest.usage),
    }


def settle_pieces(store: Store, job: Job) -> tuple[list[SettledPiece], Tally]:
    """Check that pieces cover the input once, and refuse lines whose `custom_id` an earlier line has.

    A piece that answered such lines is written again without the answers, under other names.

    Returns:
        The pieces in order, and the tally of all lines.

    Raises:
        BatchError: Some of the input is in no piece or in two, or a piece is damaged.
        StoreError: An object can't be read or written.
    """
    pieces, tally, end = list[SettledPiece](), NOTHING, 0
    with TemporaryDirectory() as folder, open_index(Path(folder)) as custom_ids:
        for record in _read_records(store, job):
            _check_position(end, record.start)
            end = record.end
            piece, change = _settle(store, job, record, custom_ids)
            pieces.append(piece)
            tally += record.tally + change
    _check_position(end, job.size)
    return pieces, tally


def join_lines(store: Store, objects: Iterable[LinesObject], name: str) -> Extent:
    """Join objects of output lines into one.

    Args:
        store: The store of all of them.
        objects: The objects.
        name: Name of the new one.

    Returns:
        Size of the new one.

    Raises:
        BatchError: An object is damaged.
        StoreError: An object can't be read or written.
    """
    filled = [each for each in objects if each.extent.lines]
    largest = max((each.extent.bytes for each in filled), default=1)
    ahead = max(1, min(MAX_AHEAD, MAX_KEPT_BYTES // largest))
    with ThreadPoolExecutor(THREADS) as threads:
        size = store.write_chunks(name, map_ahead(threads, partial(_read, store), filled, ahead=ahead))
    return Extent(size, sum(each.extent.lines for each in filled))


def _read_records(store: Store, job: Job) -> Iterator[Record]:
    """Yield the records of a job in order. Another job may have written some to the same place."""

    def read(name: str) -> Record | None:
        record = read_record(store, name)
        if record.job != job.digest:
            return None
        if (damaged := find_damage(store, job, record)) is not None:
            raise _damage(damaged)
        return record

    with ThreadPoolExecutor(THREADS) as threads:
        for record in map_ahead(threads, read, store.list_names(job.records)):
            if record is not None:
                yield record


def _settle(store: Store, job: Job, record: Record, custom_ids: CustomIds) -> tuple[SettledPiece, Tally]:
    """Return the final output lines of a piece, and how they change its tally."""
    start = record.start
    results = LinesObject(job.lines_name("results", start), record.results)
    errors = LinesObject(job.lines_name("errors", start), record.errors)
    offsets = {job.line_id(offset).encode(): offset for offset in custom_ids.add(record.custom_ids)}
    answers = _read_lines(store, results) if offsets else {}
    repeated = {key: line for key, line in answers.items() if key in offsets}
    if not repeated:
        return SettledPiece(results, errors), NOTHING
    tokens = sum(map(count_answer, repeated.values()), NOTHING)
    change = Tally(
        failed={"duplicate_custom_id": len(repeated)},
        prompt_tokens=-tokens.prompt_tokens,
        completion_tokens=-tokens.completion_tokens,
    )
    kept = {key: line for key, line in answers.items() if key not in repeated}
    duplicates = {key: refuse_duplicate(job, offsets[key], line) for key, line in repeated.items()}
    refused = _read_lines(store, errors) | duplicates
    settled = SettledPiece(
        _write_lines(store, job.lines_name("settled/results", start), kept),
        _write_lines(store, job.lines_name("settled/errors", start), refused),
    )
    return settled, change


def _read(store: Store, lines: LinesObject) -> bytes:
    content = store.read(lines.name)
    if lines.extent != measure(content):
        raise _damage(lines.name)
    return content


def _read_lines(store: Store, lines: LinesObject) -> dict[bytes, bytes]:
    """Return output lines by their sort keys."""
    if not lines.extent.lines:
        return {}
    return {sort_key(line): line for line in _read(store, lines).splitlines(keepends=True)}


def _write_lines(store: Store, name: str, lines: dict[bytes, bytes]) -> LinesObject:
    content = b"".join(lines[key] for key in sorted(lines))
    if lines:
        store.write(name, content)
    return LinesObject(name, measure(content))


def _list(lines: LinesObject) -> ListedLines:
    key = lines.name.removeprefix("s3://").partition("/")[2]
    return ListedLines(key, lines.extent.bytes, lines.extent.lines)


def _damage(name: str) -> BatchError:
    return BatchError(
        f"{name} is missing or was changed: start over, here with --restart, in AWS with another execution"
    )


def _check_position(end: int, start: int) -> None:
    """Check that a piece begins where the one before it ends."""
    if start > end:
        raise BatchError(f"byte {end} of the input is in no piece: some of its parts were not derendered")
    if start < end:
        raise BatchError(f"byte {start} of the input is in two pieces: start another execution")
