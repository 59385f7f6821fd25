"""Events of the state machine: each asks for one step of a job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from derender.batch.errors import BatchError
from derender.batch.job import Job, is_s3_uri
from derender.batch.stores.store import Changed, Forbidden, NotFound, Refused

from .derender import derender_part
from .finish import finish_job
from .plan import plan_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from derender.telemetry.tally import Tally

    from .derender import Worker

__all__ = ["run_step"]


class PlanEvent(msgspec.Struct, tag_field="step", tag="plan"):
    """Asks to plan a job."""

    input: str
    output: str
    id: str
    started: str


class DerenderEvent(msgspec.Struct, tag_field="step", tag="derender"):
    """Asks to derender a part, or the rest of one."""

    job: Job
    start: int


class FinishEvent(msgspec.Struct, tag_field="step", tag="finish"):
    """Asks to finish a job."""

    job: Job


Event = PlanEvent | DerenderEvent | FinishEvent


def run_step(
    event: object, worker: Worker, *, is_late: Callable[[], bool], observe: Callable[[Tally], object]
) -> dict[str, Any]:
    """Run the step that an event asks for.

    Args:
        event: An event (docs/batch.md).
        worker: The worker.
        is_late: Tells whether a long step should leave the rest to another call.
        observe: Called with the tally of some hundred derendered lines at a time. Only the manifest counts
            duplicates: a step that is repeated would count them twice.

    Raises:
        BatchError: The job can't be done.
        StoreError: An object can't be read or written now.
    """
    try:
        wanted: Event = msgspec.convert(event, Event)
    except msgspec.ValidationError as error:
        raise BatchError(f"the event is invalid: {error}") from None
    try:
        match wanted:
            case PlanEvent():
                return _plan(wanted, worker)
            case DerenderEvent(job, start):
                if not 0 <= start < job.size:
                    raise BatchError(f"start must be an offset in the input of {job.size} bytes, got {start}")
                done = derender_part(worker, job, start, is_late=is_late, observe=observe)
                return {"next": done.next}
            case FinishEvent(job):
                return finish_job(worker.store, job)
    except (Changed, Forbidden, NotFound, Refused) as error:
        raise BatchError(str(error)) from error


def _plan(event: PlanEvent, worker: Worker) -> dict[str, Any]:
    output = f"{event.output.rstrip('/')}/"
    if not is_s3_uri(event.input):
        raise BatchError("input must be s3://bucket/key")
    if not is_s3_uri(f"{output}x"):
        raise BatchError("output must be s3://bucket/prefix/")
    job = plan_job(worker.store, event.input, f"{output}{event.id}/", event.id, _read_time(event.started))
    return {"job": msgspec.to_builtins(job), "parts": [*job.starts]}


def _read_time(text: str) -> int:
    """Return a time of Step Functions as Unix time."""
    try:
        time = datetime.fromisoformat(text)
        seconds = int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        seconds = -1
    if seconds < 0:
        raise BatchError("started must be a time since 1970, such as 2026-01-31T09:30:00Z")
    return seconds
