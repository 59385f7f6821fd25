"""Fixtures of the tests of batches."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from moto import mock_aws

from .support import REGION, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket in an account of its own."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield Bucket()
