"""Measures what building a layer takes: compiling and proving real tokenizers; and how large they become."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from derender.vocabulary import load
from fetch import NAMES, fetch
from layer_compiler import build
from tests.benchmarks.table import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["rows"]


def rows(tokenizers: Path) -> Iterator[Row]:
    """A row for each tokenizer, built once.

    Args:
        tokenizers: Folder of tokenizers; those that are not there are fetched.
    """
    for name in NAMES:
        folder = fetch(tokenizers, name)
        with tempfile.TemporaryDirectory() as out:
            begun = time.perf_counter()
            built = build(folder, name, Path(out))
            taken = time.perf_counter() - begun
            manifest, size = load(built.path).manifest, built.path.stat().st_size
            yield Row(
                f"compile and prove {name}",
                f"{taken:.1f} s",
                f"{manifest.source_format}, {manifest.size:,} ids",
                f"{sum(path.stat().st_size for path in folder.iterdir()) / 1e6:.1f} MB",
                f"{size / 1e6:.2f} MB",
                "",
            )
