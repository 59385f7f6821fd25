"""Folders of the project."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["BUNDLED", "CACHE", "HANDLERS", "ROOT"]

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache"
"""Downloads and compiled layers, kept between test runs."""
HANDLERS: Final = ROOT / "handlers"
BUNDLED: Final = ROOT / "layers" / "tokenizer" / "default"
"""The layer that ships with the project: Qwen3."""
