"""The observer: reports requests, and lines of batches, in log lines and metrics."""

from __future__ import annotations

import logging
import os
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict

from derender.errors import InternalError

from .faults import log_unexpected
from .log_lines import read_service, write_line
from .metrics import METRICS, metric_line
from .observation import CLIENT_LEFT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .observation import Observation
    from .tally import Tally

__all__ = ["Observer"]

HEALTH: Final = ("/health", "/ping")
UPSTREAM_FAULTS: Final = (
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)

logger = logging.getLogger("derender")


class Observer:
    """Reports what a function does: in log lines, and in metrics if `DERENDER_SERVICE` is set."""

    def __init__(self, function: str, environment: Mapping[str, str] = os.environ) -> None:
        """Create an observer that has reported nothing yet.

        Args:
            function: Name of the function.
            environment: The variables.
        """
        self._function = function
        self._service = read_service(environment)
        # Nobody waits for a start with provisioned concurrency.
        self._cold = environment.get("AWS_LAMBDA_INITIALIZATION_TYPE") != "provisioned-concurrency"

    def __call__(self, observation: Observation) -> None:
        """Report a request. Errors are logged, not raised."""
        try:
            self._report_request(observation)
        except Exception as error:
            log_unexpected(error)

    def report_lines(self, tally: Tally) -> None:
        """Report lines of a batch. Errors are logged, not raised."""
        try:
            self._report_lines(tally)
        except Exception as error:
            log_unexpected(error)

    def _report_request(self, observation: Observation) -> None:
        answer, error = observation.answer, observation.error
        # Requests that don't derender have a log line, and no metrics.
        derenders = observation.method == "POST" and observation.endpoint.startswith("/v1/")
        fields: dict[str, Any] = {
            **asdict(observation),
            **asdict(answer),
            **asdict(answer.tally),
            "parsers": "+".join(answer.parsers),
            "cold_start": derenders and self._is_cold_start(),
        }
        del fields["answer"], fields["tally"]
        whose = _whose_error(observation.status)
        _log(_level(whose, observation.endpoint), "request", fields)
        if derenders:
            values = {**fields, "requests": 1} | ({whose: 1} if whose else {})
            self._measure(values, failed={error: 1} if error else {})

    def _report_lines(self, tally: Tally) -> None:
        fields = {**asdict(tally), "cold_start": self._is_cold_start()}
        _log(logging.INFO, "batch", fields)
        server_errors = tally.failed.get(InternalError.__name__, 0)
        client_errors = sum(tally.failed.values()) - server_errors
        values = {**fields, "client_errors": client_errors, "server_errors": server_errors}
        self._measure(values, failed=tally.failed)

    def _is_cold_start(self) -> bool:
        """Return whether this is the first report of a process whose start somebody waited for."""
        cold, self._cold = self._cold, False
        return cold

    def _measure(self, fields: Mapping[str, Any], *, failed: Mapping[str, int]) -> None:
        """Write the metrics of a log line.

        Args:
            fields: Fields of the line, and the others that `METRICS` has.
            failed: Kind of error → how often it occurred.
        """
        if self._service is None:
            return
        own = {"Service": self._service, "Function": self._function}
        totals = {field: fields[field] for field in METRICS if field in fields}
        by_parser = {**own, "Parser": fields.get("parsers", "")}, fields["outcomes"]
        by_error = [({**own, "Error": kind}, {"errors": count}) for kind, count in failed.items()]
        # A dimension has one value in a line, so every further kind of error needs a line of its own.
        for sets in ([(own, totals), by_parser, *by_error[:1]], *([each] for each in by_error[1:])):
            if (line := metric_line(sets)) is not None:
                write_line(line)


def _whose_error(status: int) -> str | None:
    """Return the field that counts a status as an error."""
    if status in UPSTREAM_FAULTS:
        return "upstream_faults"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "server_errors"
    return "client_errors" if HTTPStatus.BAD_REQUEST <= status < CLIENT_LEFT else None


def _level(whose_error: str | None, endpoint: str) -> int:
    if whose_error is not None:
        return logging.WARNING if whose_error == "client_errors" else logging.ERROR
    # The Web Adapter asks until the relay is ready.
    return logging.DEBUG if endpoint in HEALTH else logging.INFO


def _log(level: int, message: str, fields: Mapping[str, Any]) -> None:
    logger.log(level, message, extra={name: value for name, value in fields.items() if value})
