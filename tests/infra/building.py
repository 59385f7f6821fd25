"""Builds the application with SAM, once for all processes and until a source changes."""

from __future__ import annotations

import hashlib
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from fetch import lock
from tests.support.environment import inherited
from tests.support.paths import CACHE

from .stack import REGION, ROOT, RUNTIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["ARCHITECTURE", "built", "run", "runtime_python", "sam", "wheels"]

SOURCES: Final = (
    "template.yaml",
    "samconfig.toml",
    "infra/*.yaml",
    "infra/build",
    "handlers",
    "layers/tokenizer",
)
ARCHITECTURE: Final = "arm64" if platform.machine() in ("arm64", "aarch64") else "x86_64"
STALE_SECONDS: Final = 3600
"""Age at which a build of other sources is deleted."""


def run(*command: str | Path, environment: Mapping[str, str] | None = None, folder: str | Path = ROOT) -> str:
    """Run a command in a folder of the project, without AWS credentials, and return its output."""
    settings = {"AWS_DEFAULT_REGION": REGION, "SAM_CLI_TELEMETRY": "0", "PYTHON": sys.executable}
    done = subprocess.run(
        command,
        cwd=ROOT / folder,
        env={**inherited(), **settings, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def sam(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """Run the SAM CLI of this environment."""
    return run(Path(sys.executable).with_name("sam"), *arguments, environment=environment)


def built() -> Path:
    """Return the folder of a `sam build` for this machine's processor."""
    files = [path for pattern in SOURCES for path in _files(pattern)]
    architecture = ("--parameter-overrides", f"Architecture={ARCHITECTURE}")
    return _kept("builds", files, lambda folder: sam("build", "--build-dir", folder, *architecture))


def wheels(architecture: str) -> list[str]:
    """Return the file names of the wheels that a build for a processor would install."""
    makefile = ROOT / "infra" / "build" / architecture / "Makefile"
    target = ("build-ApiFunction", "ARTIFACTS_DIR=/nowhere")
    plan = run("make", "--dry-run", "-C", "handlers", "-f", makefile, *target)
    # Make prints the name of its folder first.
    install = shlex.split(plan.replace("\\\n", "").splitlines()[1])
    assert install[1:4] == ["-m", "pip", "install"]

    def resolve(folder: Path) -> None:
        folder.mkdir()
        report = ("--dry-run", "--ignore-installed", "--report", folder / "report.json")
        run(*install, *report, folder="handlers")

    sources = (*_files("infra/build"), *_files("handlers/Makefile"), *_files("handlers/requirements.txt"))
    folder = _kept(f"wheels-{architecture}", sources, resolve)
    installed = orjson.loads((folder / "report.json").read_bytes())["install"]
    return [each["download_info"]["url"].rpartition("/")[2] for each in installed]


@cache
def runtime_python() -> Path | None:
    """Return a Python of the function's version with the runtime client, or None if this machine has none."""
    environment: Path = CACHE / RUNTIME
    interpreter = environment / "bin" / "python"
    with lock(environment.parent):
        if not (interpreter.is_file() and (environment / "complete").is_file()):
            found = run("make", "--no-print-directory", "-C", "handlers", "runtime-python").strip()
            if not found:
                return None
            run(found, "-m", "venv", "--clear", environment)
            run(
                interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "awslambdaric>=3"
            )
            (environment / "complete").touch()
    return interpreter


@cache
def _key(files: tuple[Path, ...]) -> str:
    digest = hashlib.sha256(f"{sys.version} {version('aws-sam-cli')}".encode())
    for path in files:
        content = path.read_bytes()
        digest.update(f"\0{path.relative_to(ROOT)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _kept(name: str, sources: Iterable[Path], make: Callable[[Path], object]) -> Path:
    """Return a folder that is made from these sources, or was before."""
    folders = CACHE / name
    current = folders / _key(tuple(sources))
    with lock(folders):
        if not current.is_dir():
            with tempfile.TemporaryDirectory(dir=folders, prefix=".") as work:
                folder = Path(work, "made")
                make(folder)
                folder.rename(current)
            for stale in folders.glob("[!.]*"):
                if stale != current and stale.stat().st_mtime < time.time() - STALE_SECONDS:
                    shutil.rmtree(stale)
    return current


def _files(pattern: str) -> list[Path]:
    found = [each for path in ROOT.glob(pattern) for each in ([path] if path.is_file() else path.rglob("*"))]
    return sorted(each for each in found if each.is_file() and "__pycache__" not in each.parts)
