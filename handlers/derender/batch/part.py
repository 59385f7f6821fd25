"""A part of a job, derendered piece by piece. What is done stays done, whoever dies.

A piece is some lines that follow each other. Its objects are written, and last its record; a worker that takes
the part up again finds the record and goes on behind it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from derender.telemetry.tally import NOTHING

from .ahead import References
from .errors import LineError
from .lines import read_lines
from .outputs import answer_line
from .records import find_record, record
from .requests import read_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from derender.models.model import Models
    from derender.telemetry.tally import Tally

    from .job import Job
    from .lines import Line
    from .outputs import Output
    from .requests import BatchRequest
    from .stores import Store

__all__ = ["Reached", "Worker", "derender_part"]

MOST_LINES: Final = 1000
"""Of a piece."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""A piece ends with the line that brings it to so much, read or written."""


class Worker:
    """What lines are derendered with.

    Attributes:
        store: Where the input is, and what is written.
        models: The models.
        max_body_bytes: Most bytes of a line, and of what a line refers to.
        max_sequences: Most choices of a request, so most that a line may refer to.
        references: Fetches what lines refer to.

    Args:
        references: Where that is, made when it is first asked for.
    """

    def __init__(
        self,
        store: Store,
        models: Models,
        *,
        max_body_bytes: int,
        max_sequences: int,
        references: Callable[[], Store],
    ) -> None:
        self.store = store
        self.models = models
        self.max_body_bytes = max_body_bytes
        self.max_sequences = max_sequences
        self.references = References(references, max_body_bytes)


class Reached(NamedTuple):
    """How far a part has come."""

    next: int | None
    """Where to go on; None once the part is done."""
    tally: Tally
    """Of the lines so far: those that were derendered now, and those that were found done."""


class _Piece(NamedTuple):
    start: int
    end: int
    outputs: list[Output]


def derender_part(
    worker: Worker, job: Job, start: int, *, is_late: Callable[[], bool], observe: Callable[[Tally], object]
) -> Reached:
    """Derender the lines that begin from `start` on to the end of its part.

    Args:
        worker: What to do it with.
        job: The job.
        start: Where the part begins, or what a call before has given as `next`.
        is_late: Asked after each piece: whether to leave the rest to another call.
        observe: Told of each piece that is derendered now.

    Raises:
        StoreError: Something can't be read or written.
    """
    end, tally = job.part_end(start), NOTHING
    while start < end and (done := find_record(worker.store, job, start)) is not None:
        start, tally = done.end, tally + done.tally
    if start < end:
        for piece in _pieces(_outputs(worker, job, start, end), start, end):
            written = _write(worker.store, job, piece)
            observe(written)
            tally += written
            if piece.end < end and is_late():
                return Reached(piece.end, tally)
    return Reached(None, tally)


def _outputs(worker: Worker, job: Job, start: int, end: int) -> Iterator[Output]:
    read = partial(worker.store.read_range, job.input, etag=job.etag)
    lines = read_lines(read, start, end, job.size, worker.max_body_bytes)
    requests = ((line, _request(line, worker)) for line in lines if not _is_blank(line))
    return (answer_line(job, worker.models, ready) for ready in worker.references.fetch(requests))


def _is_blank(line: Line) -> bool:
    return line.content is not None and (not line.content or line.content.isspace())


def _request(line: Line, worker: Worker) -> BatchRequest | LineError:
    if line.content is None:
        return LineError(
            "line_too_long",
            f"the line is longer than {worker.max_body_bytes} bytes; send fewer candidates or fewer "
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
            f"the line refers to {count} objects, more than {worker.max_sequences}; send fewer "
            "generations, or raise DERENDER_MAX_SEQUENCES",
            request.custom_id,
        )
    return request


def _pieces(outputs: Iterable[Output], start: int, end: int) -> Iterator[_Piece]:
    """The part in pieces. One may be without lines: those of the part are in no other."""
    piece, size = _Piece(start, end, []), 0
    for output in outputs:
        piece.outputs.append(output)
        size += output.size
        if len(piece.outputs) >= MOST_LINES or size >= MOST_BYTES:
            after = min(output.end, end)
            yield piece._replace(end=after)
            piece, size = _Piece(after, end, []), 0
    if piece.start < end:
        yield piece


def _write(store: Store, job: Job, piece: _Piece) -> Tally:
    results = [output.content for output in piece.outputs if output.error is None]
    errors = [output.content for output in piece.outputs if output.error is not None]
    if results:
        store.write(job.results_name(piece.start), b"".join(results))
    if errors:
        store.write(job.errors_name(piece.start), b"".join(errors))
    made = record(job, *piece)
    store.write(job.record_name(piece.start), msgspec.json.encode(made))
    return made.tally
