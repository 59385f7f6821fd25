"""Fixtures of the tests of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from moto import mock_aws

from .bucket import REGION, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """Return a bucket in an account of its own."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield Bucket()
