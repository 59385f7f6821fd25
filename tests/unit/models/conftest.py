"""A layer of several models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .small_layers import SEVERAL, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A layer of the models `SEVERAL`."""
    write(tmp_path, *SEVERAL)
    return tmp_path
