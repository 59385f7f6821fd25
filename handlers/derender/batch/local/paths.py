"""Paths of what a job on files writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from derender.batch.errors import BatchError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["OutputPaths", "check_paths", "locate_outputs"]


class OutputPaths(NamedTuple):
    """Where a job writes."""

    results: Path
    errors: Path
    manifest: Path
    work: Path
    """Folder of the pieces. It is removed at the end."""

    @property
    def lock(self) -> Path:
        """Lock of the process that writes all this."""
        return self.results.with_name(f"{self.results.name}.lock")


def locate_outputs(results: Path) -> OutputPaths:
    """Return the paths beside the results. If these are a link, all paths are beside its target.

    Raises:
        BatchError: The results can't be a regular file.
    """
    # Checked before the link is followed: some targets, such as /dev/stdout in a pipe, have no name.
    if not results.name or (results.exists() and not results.is_file()):
        raise BatchError(f"{results} is no regular file")
    if results.is_symlink():
        results = results.resolve()
    stem = results.name.removesuffix(".jsonl")
    return OutputPaths(
        results,
        results.with_name(f"{stem}.errors.jsonl"),
        results.with_name(f"{stem}.manifest.json"),
        results.with_name(f"{results.name}.partial"),
    )


def check_paths(source: Path, paths: OutputPaths) -> None:
    """Check the input and the outputs before anything is written.

    Raises:
        BatchError: The input is no file or would be overwritten, or an output is no file.
    """
    if not source.is_file():
        raise BatchError(f"{source} is no file")
    for path in (paths.errors, paths.manifest):
        if path.exists() and not path.is_file():
            raise BatchError(f"{path} is no regular file")
    if source.resolve() in [path.resolve() for path in (*paths, paths.lock)]:
        raise BatchError(f"{source} would be overwritten")
