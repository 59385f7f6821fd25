"""Steps of a job on S3, as the state machine asks for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from derender.batch import run_step
from tests.batch.bucket import BUCKET
from tests.batch.jobs import make_worker

if TYPE_CHECKING:
    from derender.telemetry.tally import Tally
    from tests.batch.bucket import Bucket

__all__ = ["INPUT", "OUTPUT", "PLAN", "run_event"]

INPUT: Final = f"s3://{BUCKET}/in.jsonl"
OUTPUT: Final = f"s3://{BUCKET}/out/"
PLAN: Final = {
    "step": "plan",
    "input": INPUT,
    "output": OUTPUT,
    "id": "job-1",
    "started": "2026-01-02T03:04:05.678Z",
}


def run_event(
    bucket: Bucket, event: object, *, is_late: bool = False, tallies: list[Tally] | None = None
) -> Any:
    """Do a step. Its answer goes through JSON, as in AWS."""
    observe = (lambda _: None) if tallies is None else tallies.append
    answer = run_step(event, make_worker(bucket.store), is_late=lambda: is_late, observe=observe)
    return json.loads(json.dumps(answer))
