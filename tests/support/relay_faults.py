"""Errors that the relay answers with, and secrets that none of them contains."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx
    import pytest

__all__ = ["BAD_GATEWAY", "SECRETS", "TIMEOUT", "expect_clean_log", "read_error"]

BAD_GATEWAY: Final = (502, "BadGatewayError")
TIMEOUT: Final = (504, "GatewayTimeoutError")
SECRETS: Final = ("http://", ".internal", "127.0.0.1", "secret-token", "Traceback", "Bearer", "quixotic")
"""Strings that no answer and no log line may contain: of the settings, and of what upstreams send."""


def read_error(response: httpx.Response) -> tuple[int, str]:
    """Check the envelope of an error, and return its status and type."""
    error: dict[str, Any] = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["code"] == response.status_code
    assert error["message"]
    assert not any(secret in response.text for secret in SECRETS)
    return response.status_code, error["type"]


@contextmanager
def expect_clean_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that no log line of the relay, its server or its HTTP client has a secret or an exception."""
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "derender"):
        yield
    for record in caplog.get_records("call"):
        if record.name.startswith(("derender", "httpx", "httpcore", "uvicorn")):
            assert "unexpected" not in record.getMessage()
            assert not any(secret in record.getMessage() for secret in SECRETS)
