"""Batches: JSON lines of requests → JSON lines of answers, in S3 or in files (docs/batch.md).

Each package imports only from those after it: `local`, `steps`, `lines`, `stores`. Only `stores.s3` knows AWS.
"""

from .errors import BatchError
from .lines.references import References
from .steps.derender import Worker
from .steps.events import run_step

__all__ = ["BatchError", "References", "Worker", "run_step"]
