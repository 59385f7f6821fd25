"""Fixtures of the layer tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.small_tokenizers import byte_level_tokenizer

from .checking.checks import build_layer_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a layer of the byte-level tokenizer."""
    return build_layer_of(byte_level_tokenizer(), tmp_path_factory.mktemp("layers") / "tiny")
