"""What `sam build` makes of the project. It is kept until a source changes, and made once for all processes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fetch import held

from .stack import REGION, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["OF_MAKE", "built", "run", "sam"]

BUILDS: Final = ROOT / ".cache" / "builds"
SOURCES: Final = ("template.yaml", "samconfig.toml", "handlers", "infra", "layers/tokenizer")
STALE_SECONDS: Final = 3600
"""After so long nobody tests what was built of other sources."""
OF_MAKE: Final = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS")
"""What `make test` would tell a make within it."""


def run(*command: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a command in the project, without AWS credentials but those that are given; what it printed."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("AWS_") and name not in OF_MAKE
    }
    settings = {"AWS_DEFAULT_REGION": REGION, "SAM_CLI_TELEMETRY": "0", "PYTHON": sys.executable}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**inherited, **settings, **(environment or {})},
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


def built(architecture: str, resource: str = "") -> Path:
    """The folder that `sam build` makes for an architecture, of all there is or of one resource."""
    return _built(architecture, resource)


@cache
def _built(architecture: str, resource: str) -> Path:
    builds = BUILDS / f"{architecture}{resource}"
    current = builds / _key()
    with held(builds):
        if not current.is_dir():
            with tempfile.TemporaryDirectory(dir=builds, prefix=".") as work:
                folder = Path(work, "build")
                what = ("build", resource) if resource else ("build",)
                sam(*what, "--build-dir", folder, "--parameter-overrides", f"Architecture={architecture}")
                folder.rename(current)
            for stale in builds.glob("[!.]*"):
                if stale != current and stale.stat().st_mtime < time.time() - STALE_SECONDS:
                    shutil.rmtree(stale)
    return current


def _key() -> str:
    """What is built, as one short hash."""
    digest = hashlib.sha256(f"{sys.version} {version('aws-sam-cli')}".encode())
    for path in _sources():
        content = path.read_bytes()
        digest.update(f"\0{path.relative_to(ROOT)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _sources() -> Iterator[Path]:
    for name in SOURCES:
        path = ROOT / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in files if each.is_file() and "__pycache__" not in each.parts)
