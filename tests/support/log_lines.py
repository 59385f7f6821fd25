"""Log lines, as the functions write them to standard output."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from derender.telemetry.log_lines import INVOCATION, configure_logging
from derender.telemetry.request_ids import REQUEST_ID

from .functions import same_logging

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

__all__ = ["LogLines", "captured"]

LogLines = Callable[[], list[dict[str, Any]]]
"""Returns the lines since its last call, parsed."""


@contextmanager
def captured(capsys: pytest.CaptureFixture[str]) -> Iterator[LogLines]:
    """Log as the api function does, outside any request. Everything that is written must be JSON."""

    def read() -> list[dict[str, Any]]:
        out, err = capsys.readouterr()
        assert err == ""
        return [json.loads(line) for line in out.splitlines()]

    REQUEST_ID.set(None)
    INVOCATION.set({})
    with ExitStack() as stack:
        # A server of another test may have configured these.
        for name in ("uvicorn", "uvicorn.error"):
            stack.enter_context(patch.object(logging.getLogger(name), "handlers", []))
            stack.enter_context(patch.object(logging.getLogger(name), "propagate", True))
        stack.enter_context(same_logging())
        configure_logging("api", {"DERENDER_SERVICE": "stack", "DERENDER_LOG_LEVEL": "DEBUG"})
        yield read
