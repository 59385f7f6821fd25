"""The steps of a job as the state machine asks for them: events → what they are answered with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from .errors import BatchError
from .finish import finish
from .job import Job, is_uri, plan, read_time
from .part import derender_part
from .stores import Changed, Forbidden, NotFound, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from derender.telemetry.tally import Tally

    from .part import Worker

__all__ = ["run_step"]


class _Plan(msgspec.Struct, tag_field="step", tag="plan"):
    input: str
    output: str
    id: str
    started: str


class _Derender(msgspec.Struct, tag_field="step", tag="derender"):
    job: Job
    start: int


class _Finish(msgspec.Struct, tag_field="step", tag="finish"):
    job: Job


_Event = _Plan | _Derender | _Finish


def run_step(
    event: object, worker: Worker, *, is_late: Callable[[], bool], observe: Callable[[Tally], object]
) -> dict[str, Any]:
    """Do a step.

    Args:
        event: `plan`, `derender` or `finish`, as README.md has them.
        worker: What to do it with.
        is_late: Whether a long step is to leave the rest to another call.
        observe: Told of lines that were derendered, some hundreds at a time. How many of them turn out to be
            duplicates is in the manifest alone: a step that is repeated would count them twice.

    Raises:
        BatchError: The job can't be done.
        StoreError: Something can't be read or written now.
    """
    try:
        wanted: _Event = msgspec.convert(event, _Event)
    except msgspec.ValidationError as error:
        raise BatchError(f"the event: {error}") from None
    try:
        match wanted:
            case _Plan():
                return _planned(wanted, worker)
            case _Derender():
                if not 0 <= wanted.start < wanted.job.size:
                    raise BatchError("start: it is not in the input")
                done = derender_part(worker, wanted.job, wanted.start, is_late=is_late, observe=observe)
                return {"next": done.next}
            case _Finish():
                return finish(worker.store, wanted.job)
    except (Changed, Forbidden, NotFound, Refused) as error:
        raise BatchError(str(error)) from error


def _planned(event: _Plan, worker: Worker) -> dict[str, Any]:
    output = f"{event.output.rstrip('/')}/"
    if not is_uri(event.input):
        raise BatchError("input: s3://bucket/key is needed")
    if not is_uri(f"{output}x"):
        raise BatchError("output: s3://bucket/prefix/ is needed")
    job = plan(worker.store, event.input, f"{output}{event.id}/", event.id, read_time(event.started))
    return {"job": msgspec.to_builtins(job), "parts": [*job.starts]}
