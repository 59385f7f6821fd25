"""Corrects moto's Step Functions: Map Runs fail, and times are written as AWS writes them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import moto.stepfunctions.parser.models as executions
from moto.stepfunctions.parser.api import HistoryEventType, MapRunFailedEventDetails
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
    StatesErrorNameType,
)
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration import (
    distributed_iteration_component,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.itemprocessor import (
    distributed_item_processor_worker,
)
from moto.stepfunctions.parser.asl.eval.program_state import ProgramError

if TYPE_CHECKING:
    import pytest
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

__all__ = ["Observed", "as_in_aws"]


class StartTime(datetime):
    """A time in the format of Step Functions."""

    def isoformat(self, *_: Any) -> str:
        """Return the time with milliseconds, and Z for UTC."""
        return f"{self:%Y-%m-%dT%H:%M:%S}.{self.microsecond // 1000:03}Z"


STARTED: Final = StartTime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
"""The start of each execution. Answers contain it."""


@dataclass
class Observed:
    """Facts about executions that moto does not report."""

    waits: list[float] = field(default_factory=list)
    """Seconds before each retry."""
    failed_parts: list[dict[str, Any]] = field(default_factory=list)
    """Error and cause of each failed execution of a Map Run."""
    outputs: list[Any] = field(default_factory=list)
    """Output of each other execution."""
    events: list[Any] = field(default_factory=list)
    """Their histories."""


def as_in_aws(patch: pytest.MonkeyPatch) -> Observed:
    """Correct moto until the patch ends."""
    observed = Observed()
    lock = threading.Lock()
    patch.setattr(retrier_decl, "time", SimpleNamespace(sleep=observed.waits.append))
    clock = SimpleNamespace(now=lambda tz: STARTED.astimezone(tz))
    patch.setattr(executions, "datetime", SimpleNamespace(datetime=clock, timezone=SimpleNamespace(utc=UTC)))

    worker = distributed_item_processor_worker.DistributedItemProcessorWorker
    evaluate_part = worker._eval_job

    def eval_job(self: Any, env: Any, job: Any) -> None:
        evaluate_part(self, env, job)
        state = env.program_state()
        with lock:
            if isinstance(state, ProgramError):
                observed.failed_parts.append(dict(state.error or {}))
            else:
                observed.outputs.append(job.job_output)

    patch.setattr(worker, "_eval_job", eval_job)

    component = distributed_iteration_component.DistributedIterationComponent
    evaluate_parts = component._map_run

    def map_run(self: Any, env: Any, eval_input: Any) -> None:
        evaluate_parts(self, env, eval_input)
        observed.events += env.event_manager.get_event_history()
        # In moto a Map Run succeeds whatever becomes of its executions.
        if len(observed.failed_parts) > eval_input.tolerated_failure_count:
            env.stack.pop()
            raise _too_many_failures(env)

    patch.setattr(component, "_map_run", map_run)
    return observed


def _too_many_failures(env: Any) -> FailureEventException:
    kind = StatesErrorNameType.StatesExceedToleratedFailureThreshold
    details = MapRunFailedEventDetails(
        error=kind.to_name(), cause="The specified tolerated failure threshold was exceeded"
    )
    return FailureEventException(
        FailureEvent(
            env=env,
            error_name=StatesErrorName(typ=kind),
            event_type=HistoryEventType.MapRunFailed,
            event_details=cast("EventDetails", {"mapRunFailedEventDetails": details}),
        )
    )
