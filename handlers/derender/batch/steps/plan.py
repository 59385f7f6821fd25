"""The first step: cut an input into parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from derender.batch.errors import BatchError
from derender.batch.job import Job

if TYPE_CHECKING:
    from derender.batch.stores.store import Store

__all__ = ["MAX_PARTS", "MIN_PART_BYTES", "plan_job"]

MAX_PARTS: Final = 10_000
"""Their offsets are at most 130 KB of JSON; Step Functions takes 256 KB."""
MIN_PART_BYTES: Final = 1024 * 1024
_ID: Final = re.compile(r"(?!\.+$)[^/\x00-\x1f\x7f\ud800-\udfff]{1,80}")


def plan_job(store: Store, name: str, output: str, job_id: str, created: int) -> Job:
    """Return the job of an input.

    Args:
        store: The store of the input.
        name: Name of the input.
        output: Prefix of everything that is written, with a trailing slash.
        job_id: The job's id.
        created: Unix time at which the job was started.

    Raises:
        NotFound: The input does not exist.
        BatchError: The id can't be used.
    """
    if not _ID.fullmatch(job_id):
        raise BatchError("id must be 1 to 80 characters without slashes")
    size, etag = store.stat(name)
    part_bytes = max(MIN_PART_BYTES, -(-size // MAX_PARTS))
    return Job(name, output, job_id, created, etag, size, part_bytes)
