"""The batch function: runs the step of a job that the state machine asks for (docs/batch.md)."""

from lambda_runtime.boot import start  # before all others: it turns the garbage collector off

# isort: split
from typing import Any, Final, Protocol

from derender.batch import References, Worker, run_step
from derender.batch.stores.s3 import connect
from derender.telemetry.observer import Observer
from lambda_runtime.invocation import begin_invocation

SPARE_MILLISECONDS: Final = 60_000
"""Begin no further piece once less time of the invocation is left. A piece takes seconds."""


class Context(Protocol):
    """Lambda's context of an invocation."""

    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until the invocation times out."""


with start("batch") as (settings, models):
    observer = Observer("batch")
    store = connect()
    worker = Worker(
        store,
        models,
        max_body_bytes=settings.max_body_bytes,
        max_sequences=settings.max_sequences,
        references=References(lambda: store, settings.max_body_bytes),
    )


def handler(event: object, context: Context) -> dict[str, Any]:
    """Run a step of a job. The type of an exception tells the state machine whether to retry."""
    begin_invocation(context.aws_request_id)
    return run_step(
        event,
        worker,
        is_late=lambda: context.get_remaining_time_in_millis() < SPARE_MILLISECONDS,
        observe=observer.report_lines,
    )
