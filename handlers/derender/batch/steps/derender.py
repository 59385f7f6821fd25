"""The second step: derender a part of a job, piece by piece. A finished piece stays finished, whatever dies.

A piece is some consecutive lines. A worker writes the output lines of a piece, then its record. A worker that
takes up the part again goes on after the pieces that have a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from derender.batch.errors import LineError
from derender.batch.lines.output_lines import answer_line
from derender.batch.lines.requests import read_request
from derender.batch.lines.split import read_lines
from derender.telemetry.tally import NOTHING

from .record import Piece, find_record, write_piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from derender.batch.job import Job
    from derender.batch.lines.output_lines import OutputLine
    from derender.batch.lines.references import References
    from derender.batch.lines.requests import BatchRequest
    from derender.batch.lines.split import Line
    from derender.batch.stores.store import Store
    from derender.models.model import Models
    from derender.telemetry.tally import Tally

__all__ = ["Progress", "Worker", "derender_part"]

MAX_LINES: Final = 1000
"""Maximum number of lines in a piece."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""A piece ends with the line that brings the bytes read or written to this many."""


@dataclass(frozen=True)
class Worker:
    """What a worker needs to derender lines.

    Attributes:
        store: The store of the input and of everything that is written.
        models: The models served.
        max_body_bytes: Maximum bytes of a line.
        max_sequences: Maximum number of objects that a line may refer to.
        references: Fetches these objects.
    """

    store: Store
    models: Models
    max_body_bytes: int
    max_sequences: int
    references: References


class Progress(NamedTuple):
    """How far a part has come."""

    next: int | None
    """Offset to go on at; None once the part is finished."""
    tally: Tally
    """Tally of the lines so far, including those that were already derendered."""


def derender_part(
    worker: Worker, job: Job, start: int, *, is_late: Callable[[], bool], observe: Callable[[Tally], object]
) -> Progress:
    """Derender the lines that begin from an offset up to the end of its part.

    Args:
        worker: The worker.
        job: The job.
        start: Start of the part, or the `next` of an earlier call.
        is_late: Called after each piece. Tells whether to leave the rest to another call.
        observe: Called with the tally of each piece that is derendered now.

    Raises:
        StoreError: An object can't be read or written.
    """
    end, tally = job.part_end(start), NOTHING
    while start < end and (record := find_record(worker.store, job, start)) is not None:
        start, tally = record.end, tally + record.tally
    if start < end:
        for piece in _cut_pieces(_answer_lines(worker, job, start, end), start, end):
            added = write_piece(worker.store, job, piece).tally
            observe(added)
            tally += added
            if piece.end < end and is_late():
                return Progress(piece.end, tally)
    return Progress(None, tally)


def _answer_lines(worker: Worker, job: Job, start: int, end: int) -> Iterator[OutputLine]:
    read = partial(worker.store.read_range, job.input, etag=job.etag)
    lines = read_lines(read, start, end, job.size, worker.max_body_bytes)
    requests = ((line, _read_request(line, worker)) for line in lines if not _is_blank(line))
    return (answer_line(job, worker.models, complete) for complete in worker.references.fetch(requests))


def _is_blank(line: Line) -> bool:
    return line.content is not None and (not line.content or line.content.isspace())


def _read_request(line: Line, worker: Worker) -> BatchRequest | LineError:
    if line.content is None:
        return LineError(
            "line_too_long",
            f"a line may have at most {worker.max_body_bytes} bytes; send fewer candidates or fewer "
            "generations, or raise DERENDER_MAX_BODY_BYTES",
        )
    try:
        request = read_request(line.content)
    except LineError as error:
        return error
    count = len(request.references)
    if count > worker.max_sequences:
        return LineError(
            "too_many_references",
            f"a line may refer to at most {worker.max_sequences} objects, got {count}; send fewer "
            "generations, or raise DERENDER_MAX_SEQUENCES",
            request.custom_id,
        )
    return request


def _cut_pieces(outputs: Iterable[OutputLine], start: int, end: int) -> Iterator[Piece]:
    """Cut output lines into pieces that cover the part. A piece without lines covers bytes of no line."""
    piece, size = Piece(start, end, []), 0
    for output in outputs:
        piece.outputs.append(output)
        size += output.size
        if len(piece.outputs) >= MAX_LINES or size >= MAX_BYTES:
            next_piece = min(output.end, end)
            yield piece._replace(end=next_piece)
            piece, size = Piece(next_piece, end, []), 0
    if piece.start < end:
        yield piece
