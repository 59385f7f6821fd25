"""Log lines: JSON on standard output, without anything that clients or models wrote (docs/observability.md)."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from contextvars import ContextVar
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import orjson
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from derender.settings import SettingsError

from .faults import describe_places
from .request_ids import REQUEST_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["INVOCATION", "configure_logging", "read_service", "write_line"]

OWN: Final = "derender"
"""The logger whose messages hold nothing that a client or a model wrote."""
MAX_FIELD: Final = 8192
"""Longest field of a line, in characters. More of it is left out."""
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
INVOCATION: Final[ContextVar[Mapping[str, str]]] = ContextVar("invocation", default=MappingProxyType({}))
"""Fields of every log line of the current invocation, besides the request id."""


def configure_logging(function: str, environment: Mapping[str, str] = os.environ) -> None:
    """Write the records of all loggers, and warnings, as JSON lines to standard output, and nothing else.

    Args:
        function: Name of the function.
        environment: The variables. `DERENDER_LOG_LEVEL` is the level of derender's own records;
            `DERENDER_SERVICE` is the `service` of the lines.

    Raises:
        SettingsError: The level does not exist.
    """
    text = environment.get("DERENDER_LOG_LEVEL", "").strip() or "INFO"
    level = text.upper()
    if level not in LEVELS:
        choices = f"{', '.join(LEVELS[:-1])} or {LEVELS[-1]}"
        raise SettingsError(f"DERENDER_LOG_LEVEL must be {choices}, got {text[:100]!r}")
    handler = _StandardOutput()
    handler.setFormatter(_JsonLines(service=read_service(environment), function=function))
    root = logging.getLogger()
    # Replace the handlers of Lambda's runtime, whichever format they write.
    root.handlers[:] = [handler]
    logging.getLogger(OWN).setLevel(level)
    # Below this level, other loggers write paths, URLs and headers.
    root.setLevel(max(logging.WARNING, logging.getLogger(OWN).level))
    # The logging module prints a record that can't be formatted together with its arguments.
    logging.raiseExceptions = False
    warnings.showwarning = _log_warning


def read_service(environment: Mapping[str, str]) -> str | None:
    """Return the service that log lines and metrics name, `DERENDER_SERVICE`."""
    return environment.get("DERENDER_SERVICE", "").strip() or None


def write_line(line: str) -> None:
    """Write a line to what standard output is now."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class _StandardOutput(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            write_line(self.format(record))
        except Exception:
            self.handleError(record)


class _JsonLines(LambdaPowertoolsFormatter):
    """Formats records as JSON, without what may hold generated text."""

    def __init__(self, *, service: str | None, function: str) -> None:
        super().__init__(
            json_deserializer=str,  # a message that looks like JSON stays a message
            log_record_order=["level", "message", "timestamp"],
            use_rfc3339=True,  # Lambda needs this to filter by level
            utc=True,
            serialize_stacktrace=False,
            location=None,
            service=service,
            function=function,
        )

    def format(self, record: logging.LogRecord) -> str:
        if record.name.partition(".")[0] != OWN:
            record = copy(record)
            # Further lines of asyncio's messages are the representation of what failed.
            record.msg, record.args = record.getMessage().partition("\n")[0], ()
            record.logger = record.name
        return super().format(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the places that an exception passed, without its message."""
        return describe_places(ei[2])

    def serialize(self, log: Any) -> str:
        """Return the line, with the ids of its request and invocation."""
        for name in ("exception_notes", "taskName"):
            log.pop(name, None)
        if (request_id := REQUEST_ID.get()) is not None:
            log.setdefault("request_id", request_id)
        fields = {name: _shorten(value) for name, value in {**INVOCATION.get(), **log}.items()}
        return orjson.dumps(fields, default=str).decode()


def _shorten(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > MAX_FIELD
    return f"{value[:MAX_FIELD]}…" if is_long else value


def _log_warning(
    message: Warning | str,  # noqa: ARG001 - it may quote values
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    logging.getLogger("py.warnings").warning("%s at %s:%d", category.__name__, filename, lineno)
