"""Log lines, for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.log_lines import captured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.log_lines import LogLines


@pytest.fixture
def log_lines(capsys: pytest.CaptureFixture[str]) -> Iterator[LogLines]:
    """Log as the api function does, and read its lines."""
    with captured(capsys) as lines:
        yield lines
