"""`derender layer inspect`."""

# ruff: noqa: T201 - commands print

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derender.vocabulary import find_files, load

from .output import describe

if TYPE_CHECKING:
    import argparse

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("folder", type=Path, help="folder of compiled vocabularies")


def run(options: argparse.Namespace) -> int:
    """Describe each vocabulary of a layer."""
    for path in find_files(options.folder):
        for line in describe(path, load(path)):
            print(line)
    return 0
