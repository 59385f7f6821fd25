"""The manifest: what a job has made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from derender.batch.job import Job

if TYPE_CHECKING:
    from derender.telemetry.tally import Tally

__all__ = ["ListedLines", "Manifest", "make_manifest"]


class ListedLines(msgspec.Struct, frozen=True):
    """An object of output lines."""

    key: str
    """Its key in the manifest's bucket, or the name of a file in the manifest's folder."""
    bytes: int
    lines: int


class RequestCounts(msgspec.Struct, frozen=True):
    """Counts of lines, as in OpenAI's batches."""

    total: int
    completed: int
    failed: int


class Usage(msgspec.Struct, frozen=True):
    """Tokens of all answers."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Manifest(msgspec.Struct, frozen=True):
    """The manifest of a job."""

    job: Job
    counts: RequestCounts
    failures: dict[str, int]
    """Kind of error → lines."""
    usage: Usage
    results: list[ListedLines]
    """One after the other, these hold the results in the order of the input."""
    errors: ListedLines | None


def make_manifest(job: Job, tally: Tally, results: list[ListedLines], errors: ListedLines | None) -> Manifest:
    """Return the manifest of a job."""
    prompt, completion = tally.prompt_tokens, tally.completion_tokens
    return Manifest(
        job,
        RequestCounts(tally.requests, tally.completed, sum(tally.failed.values())),
        tally.failed,
        Usage(prompt, completion, prompt + completion),
        results,
        errors,
    )
