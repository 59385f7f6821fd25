"""Paths of what a job on files writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from derender.batch.errors import BatchError
from derender.batch.steps.manifest import Manifest
from derender.protocol.json_errors import JSON_ERRORS

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["OutputPaths", "check_outputs", "check_paths", "locate_outputs"]


_SUFFIX: Final = ".jsonl"
_ERRORS, _MANIFEST, _WORK, _LOCK = ".errors.jsonl", ".manifest.json", ".partial", ".lock"
"""Ends of the names of what is written beside the results, which themselves may have none of them."""


class OutputPaths(NamedTuple):
    """Where a job writes."""

    results: Path
    errors: Path
    manifest: Path
    work: Path
    """Folder of the pieces. It is removed at the end."""

    @property
    def lock(self) -> Path:
        """Lock of the process that writes all this. Results that share errors and manifest share it."""
        return _beside(self.results, _LOCK)


def locate_outputs(results: Path) -> OutputPaths:
    """Return the paths beside the results. If these are a link, all paths are beside its target.

    Raises:
        BatchError: The results can't be a regular file, or have the name of what is written beside others.
    """
    # Checked before the link is followed: some targets, such as /dev/stdout in a pipe, have no name.
    if not results.name or (results.exists() and not results.is_file()):
        raise BatchError(f"{results} is no regular file")
    if results.is_symlink():
        results = results.resolve()
    if results.name.endswith((_ERRORS, _MANIFEST, _WORK, _LOCK)):
        raise BatchError(f"{results} has a name that is kept for what is written beside results")
    return OutputPaths(
        results,
        _beside(results, _ERRORS),
        _beside(results, _MANIFEST),
        results.with_name(f"{results.name}{_WORK}"),
    )


def _beside(results: Path, ending: str) -> Path:
    return results.with_name(f"{results.name.removesuffix(_SUFFIX)}{ending}")


def check_paths(source: Path, paths: OutputPaths) -> None:
    """Check the input before anything is written.

    Raises:
        BatchError: It is no file, or would be overwritten.
    """
    if not source.is_file():
        raise BatchError(f"{source} is no file")
    own = {path.resolve() for path in (*paths, paths.lock)}
    if not own.isdisjoint((source.resolve(), *source.resolve().parents)):
        raise BatchError(f"{source} would be overwritten")


def check_outputs(paths: OutputPaths) -> None:
    """Check what the outputs replace, while the lock is held.

    Raises:
        BatchError: It is no output of an earlier job with the same results.
    """
    for path in (paths.errors, paths.manifest):
        if path.exists() and not path.is_file():
            raise BatchError(f"{path} is no regular file")
    if not paths.manifest.exists():
        if paths.errors.exists():
            raise BatchError(f"{paths.errors} is of no earlier job: move it away")
        return
    try:
        listed = msgspec.json.decode(paths.manifest.read_bytes(), type=Manifest).results
    except JSON_ERRORS:
        raise BatchError(f"{paths.manifest} is no manifest of a batch: move it away") from None
    if [each.key for each in listed] != [paths.results.name]:
        raise BatchError(f"{paths.manifest} is of other results: choose another name for these")
