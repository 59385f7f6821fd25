"""Where a tokenizer comes from: a folder, a repository of the Hugging Face Hub, or an S3 prefix.

    with obtained(source, revision) as origin: origin.folder, origin.source, origin.revision

Of repositories and buckets only a tokenizer's and a model's configuration files are fetched. What fetches them
is imported only where it is needed.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from layer_compiler.errors import OriginError
from layer_compiler.model_files.filenames import files_read

from .hub import fetch_repository
from .s3 import fetch_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Kind", "Origin", "kind_of", "obtained"]

Kind = Literal["folder", "hub", "s3"]

_REPOSITORY: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_S3: Final = "s3://"
_SHOWN: Final = 16
"""Digits of a digest that are recorded: enough to tell revisions apart."""
_LONGEST: Final = 4096
"""Characters of a source: a path has no more."""
_CHARACTERS: Final = 200
"""Of a source that is shown."""


@dataclass(frozen=True)
class Origin:
    """A tokenizer's files, here."""

    folder: Path
    source: str
    """Where they came from, for people."""
    revision: str | None
    """Which version of them: a repository's commit, a digest of what was under an S3 prefix; of a folder only
    where it was pinned."""


def kind_of(source: str, base: Path = Path()) -> Kind:
    """What a source is. A folder that is there is one, whatever else its name may be.

    Args:
        source: A folder, `org/name`, or `s3://bucket/prefix`.
        base: What a relative folder is relative to.

    Raises:
        OriginError: It is none of them.
    """
    shown = repr(source if len(source) <= _CHARACTERS else f"{source[:_CHARACTERS]}...")
    if len(source) > _LONGEST:
        raise OriginError(f"{shown}: no source: more than {_LONGEST:,} characters")
    if source.startswith(_S3):
        return "s3"
    try:
        if source and (base / source).exists():
            return "folder"
    except OSError as error:
        raise OriginError(f"{shown}: can't be read: {error.strerror}") from error
    if _REPOSITORY.fullmatch(source):
        return "hub"
    raise OriginError(
        f"{shown}: no such folder; a source is a folder, a Hugging Face repository (org/name) "
        "or s3://bucket/prefix"
    )


@contextmanager
def obtained(source: str, revision: str | None = None, *, base: Path = Path()) -> Iterator[Origin]:
    """A source's files, in a folder that is there until the context ends.

    Args:
        source: A folder, `org/name`, or `s3://bucket/prefix`.
        revision: Of a repository a commit, tag or branch (by default its main branch). Of the others the digest
            that their files have to have, as the message says that refuses another.
        base: What a relative folder is relative to.

    Raises:
        OriginError: It can't be had, or is not what the revision says.
    """
    match kind_of(source, base):
        case "hub":
            folder, commit = fetch_repository(source, revision)
            yield Origin(folder, source, commit)
        case "s3":
            with tempfile.TemporaryDirectory(prefix="derender-") as work:
                fetch_prefix(source, Path(work))
                digest = digest_of(Path(work))
                _pinned(source, digest, revision)
                yield Origin(Path(work), source.rstrip("/"), digest)
        case "folder":
            folder = base / source
            if not folder.is_dir():
                raise OriginError(f"{source}: is no folder")
            if revision is not None:
                _pinned(source, digest_of(folder), revision)
            yield Origin(folder, folder.resolve().name, revision)


def digest_of(folder: Path) -> str:
    """A digest of the files of a model's folder that are read, by which it is known again."""
    digest = hashlib.sha256()
    try:
        for name in files_read(folder):
            content = (folder / name).read_bytes()
            digest.update(name.encode(errors="surrogateescape") + f"\0{len(content)}\0".encode() + content)
    except OSError as error:
        raise OriginError(f"{folder}: can't be read: {error.strerror}") from error
    return f"sha256:{digest.hexdigest()[:_SHOWN]}"


def _pinned(source: str, digest: str, revision: str | None) -> None:
    if revision not in (None, digest):
        raise OriginError(f"{source}: its files are {digest}, not the revision {revision}")
