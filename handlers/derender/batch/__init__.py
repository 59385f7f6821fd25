"""Batches: JSON lines of requests → JSON lines of answers, in S3 by many workers or on files here.

README.md says what a line is, what is written, and what holds whatever dies.
"""

from .errors import BatchError
from .part import Worker
from .steps import run_step

__all__ = ["BatchError", "Worker", "run_step"]
