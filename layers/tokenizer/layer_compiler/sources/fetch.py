"""Fetch a model's tokenizer and configuration files."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from layer_compiler.errors import LayerError
from layer_compiler.model_files.filenames import list_files
from layer_compiler.model_files.reading import read_file

from .hub import fetch_repository
from .kinds import find_kind
from .s3 import fetch_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FetchedModel", "digest_files", "fetch_model"]

_DIGEST_DIGITS: Final = 16
"""Enough to tell revisions apart."""


@dataclass(frozen=True)
class FetchedModel:
    """A model's files in a local folder."""

    folder: Path
    source: str
    """Where they came from, for people."""
    revision: str | None
    """A repository's commit, or a digest of the files under an S3 prefix. A folder has one only if it is
    pinned."""


@contextmanager
def fetch_model(source: str, revision: str | None = None, *, base: Path = Path()) -> Iterator[FetchedModel]:
    """Fetch a model's files into a folder that exists until the context ends.

    Args:
        source: A folder, `org/name`, or `s3://bucket/prefix`.
        revision: For a repository a commit, tag or branch; the default is its main branch. For the others the
            digest that their files must have.
        base: The folder that relative paths start from.

    Raises:
        LayerError: The files can't be fetched, or have another digest.
    """
    match find_kind(source, base):
        case "hub":
            folder, commit = fetch_repository(source, revision)
            yield FetchedModel(folder, source, commit)
        case "s3":
            with tempfile.TemporaryDirectory(prefix="derender-") as name:
                fetch_prefix(source, Path(name))
                digest = _check_digest(source, Path(name), revision)
                yield FetchedModel(Path(name), source.rstrip("/"), digest)
        case _:
            folder = base / source
            if revision is not None:
                _check_digest(source, folder, revision)
            yield FetchedModel(folder, folder.resolve().name, revision)


def digest_files(folder: Path) -> str:
    """Return a digest of the files in a folder that are read: `sha256:` and 16 digits.

    Raises:
        LayerError: A file can't be read.
    """
    digest = hashlib.sha256()
    for name in list_files(folder):
        content = read_file(folder / name)
        digest.update(name.encode(errors="surrogateescape") + f"\0{len(content)}\0".encode() + content)
    return f"sha256:{digest.hexdigest()[:_DIGEST_DIGITS]}"


def _check_digest(source: str, folder: Path, revision: str | None) -> str:
    digest = digest_files(folder)
    if revision not in (None, digest):
        raise LayerError(f"{source}: its files have the digest {digest}, not {revision}")
    return digest
