"""Fixtures of the tests of steps."""

from __future__ import annotations

import pytest


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> int:
    """Make pieces small, and return their number of lines."""
    monkeypatch.setattr("derender.batch.steps.derender.MAX_LINES", 4)
    return 4
