"""What the functions tell their operator: JSON log lines, and metrics in CloudWatch's embedded metric format.

The only module that knows Powertools. Fields, metrics and what they cost are in infra/OBSERVABILITY.md.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
import warnings
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider
from starlette.datastructures import Headers

from derender.errors import InternalError, ResponseTooLarge
from derender.settings import SettingsError
from derender.telemetry.faults import log_unexpected
from derender.telemetry.observation import CLIENT_LEFT, OTHER
from derender.telemetry.request_ids import REQUEST_ID, is_harmless

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from derender.telemetry.observation import Observation

    Dimensions = dict[str, str]
    Values = Mapping[str, float]
    """Name of a metric → its value; one of 0 is not sent."""

__all__ = [
    "NAMESPACE",
    "OUTCOMES",
    "UNITS",
    "Observer",
    "as_returned",
    "begin_invocation",
    "behind_adapter",
    "configure_logging",
    "observe_batch",
]

NAMESPACE: Final = "Derender"
OWN: Final = "derender"
"""The logger whose lines are known to hold nothing that a client or a model wrote."""
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
HEALTH: Final = "/health"
UPSTREAM_FAULTS: Final = (HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT)

# A function has up to 13 metrics of its own, 1 for each kind of error that there was, and 5 for each pair of
# parsers that is used. CloudWatch asks $0.30 a month for each, by the hours in which it is sent, so a dimension
# more is a price more: what one model or one endpoint does is in the log lines only.
UNITS: Final = {
    "Requests": MetricUnit.Count.value,
    "ClientErrors": MetricUnit.Count.value,
    "UpstreamFaults": MetricUnit.Count.value,
    "ServerErrors": MetricUnit.Count.value,
    "Duration": MetricUnit.Milliseconds.value,
    "PromptTokens": MetricUnit.Count.value,
    "CompletionTokens": MetricUnit.Count.value,
    "Choices": MetricUnit.Count.value,
    "Candidates": MetricUnit.Count.value,
    "StateBytes": MetricUnit.Bytes.value,
    "RequestBytes": MetricUnit.Bytes.value,
    "ResponseBytes": MetricUnit.Bytes.value,
    "ColdStarts": MetricUnit.Count.value,
    "Errors": MetricUnit.Count.value,
    "ToolCallChoices": MetricUnit.Count.value,
    "TextChoices": MetricUnit.Count.value,
    "UnansweredChoices": MetricUnit.Count.value,
    "CutChoices": MetricUnit.Count.value,
    "MarkupTexts": MetricUnit.Count.value,
}
"""Metric → its unit."""
OUTCOMES: Final = {
    "tool_calls": "ToolCallChoices",
    "text": "TextChoices",
    "unanswered": "UnansweredChoices",
    "cut": "CutChoices",
    "markup": "MarkupTexts",
}
"""What a parser made of a choice (`derender.facts.Outcome`) → the metric that counts it."""
BATCH_COUNTS: Final = {
    "requests": "Requests",
    "prompt_tokens": "PromptTokens",
    "completion_tokens": "CompletionTokens",
    "candidates": "Candidates",
}
"""What a batch counts → the metric."""

_TRACE: Final = re.compile(r"\bRoot=(1-[0-9a-f]{8}-[0-9a-f]{24})\b")
_PROVIDER: Final = AmazonCloudWatchEMFProvider(namespace=NAMESPACE)

logger = logging.getLogger(OWN)


class Invocation(NamedTuple):
    """What is in each line of an invocation, besides the request's id. The names are Powertools'."""

    function_request_id: str | None = None
    """Lambda's id of the invocation."""
    xray_trace_id: str | None = None
    """The id of its trace, where it is not in the environment."""


INVOCATION: Final[ContextVar[Invocation]] = ContextVar("invocation", default=Invocation())  # noqa: B039 - a tuple


# --- log lines ------------------------------------------------------------------------------------------------


def configure_logging(function: str, environment: Mapping[str, str] = os.environ) -> None:
    """Have all loggers, and warnings, write JSON lines to standard output, and nothing else write any.

    Args:
        function: Which of the functions this is.
        environment: The variables: DERENDER_LOG_LEVEL, the level of derender's own lines, and DERENDER_SERVICE.

    Raises:
        SettingsError: There is no such level.
    """
    level = environment.get("DERENDER_LOG_LEVEL", "").strip().upper() or "INFO"
    if level not in LEVELS:
        raise SettingsError(f"DERENDER_LOG_LEVEL is {level[:100]!r}; it may be {', '.join(LEVELS)}")
    handler = _StandardOutput()
    handler.setFormatter(_JsonLines(service=_service(environment), function=function))
    root = logging.getLogger()
    # In place of the runtime's own, of whichever format.
    root.handlers[:] = [handler]
    logger.setLevel(level)
    # Others write paths, URLs and headers below this.
    root.setLevel(max(logging.WARNING, logger.level))
    # Else a line that can't be written is, by the logging module, with its arguments.
    logging.raiseExceptions = False
    warnings.showwarning = _log_warning


class _StandardOutput(logging.Handler):
    """Writes lines to what standard output is by then."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            _write(self.format(record))
        except Exception:
            self.handleError(record)


class _JsonLines(LambdaPowertoolsFormatter):
    """Records as JSON. Of others' records, and of all errors, only what can't hold what was generated."""

    def __init__(self, *, service: str | None, function: str) -> None:
        super().__init__(
            json_deserializer=str,  # a message that looks like JSON stays a message
            log_record_order=["level", "message", "timestamp"],
            use_rfc3339=True,  # as Lambda wants it, to filter by level
            utc=True,
            serialize_stacktrace=False,
            location=None,
            service=service,
            function=function,
        )

    def format(self, record: logging.LogRecord) -> str:
        if record.name.partition(".")[0] != OWN:
            record = copy(record)
            # What asyncio says in further lines is the representation of what failed.
            record.msg, record.args = record.getMessage().partition("\n")[0], ()
            record.logger = record.name
        return super().format(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Where an error happened, not its message."""
        return "".join(traceback.format_tb(ei[2]))

    def serialize(self, log: Any) -> str:
        """The line, with what all lines of a request have."""
        for name in ("exception_notes", "taskName"):
            log.pop(name, None)
        for name, value in (("request_id", REQUEST_ID.get()), *INVOCATION.get()._asdict().items()):
            if value is not None:
                log.setdefault(name, value)
        return orjson.dumps(log, default=str).decode()


def _log_warning(
    message: Warning | str,  # noqa: ARG001 - it may quote values
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    logging.getLogger("py.warnings").warning("%s at %s:%d", category.__name__, filename, lineno)


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# --- invocations ----------------------------------------------------------------------------------------------


def begin_invocation(event: object, context: object) -> None:
    """Note what an invocation is called, for its log lines, and its request if the client does not name it.

    The trace is in the environment, where Lambda's runtime puts it and Powertools finds it.

    Args:
        event: The event.
        context: Lambda's.
    """
    request_context = event.get("requestContext") if isinstance(event, dict) else None
    _begin(request_context, getattr(context, "aws_request_id", None))


def behind_adapter(app: ASGIApp) -> ASGIApp:
    """An application behind the Lambda Web Adapter, which says in headers what an invocation is called."""

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            context = _object(headers.get("x-amzn-lambda-context"))
            _begin(_object(headers.get("x-amzn-request-context")), context.get("request_id"))
            if trace := _TRACE.search(headers.get("x-amzn-trace-id", "")):
                INVOCATION.set(INVOCATION.get()._replace(xray_trace_id=trace[1]))
        await app(scope, receive, send)

    return noted


def _begin(request_context: object, invocation_id: object) -> None:
    request_id = request_context.get("requestId") if isinstance(request_context, dict) else None
    REQUEST_ID.set(_id(request_id))
    INVOCATION.set(Invocation(_id(invocation_id)))


def _id(name: object) -> str | None:
    return name if isinstance(name, str) and is_harmless(name) else None


def _object(text: str | None) -> dict[str, Any]:
    try:
        content = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


# --- observations ---------------------------------------------------------------------------------------------


class Observer:
    """Tells of each observation in a log line, and in metrics where DERENDER_SERVICE names the service."""

    def __init__(self, function: str, environment: Mapping[str, str] = os.environ) -> None:
        """Begin.

        Args:
            function: Which of the functions this is.
            environment: The variables.
        """
        self._function = function
        self._service = _service(environment)
        # What was started ahead, nobody waits for.
        self._cold = environment.get("AWS_LAMBDA_INITIALIZATION_TYPE") != "provisioned-concurrency"

    def __call__(self, observation: Observation) -> None:
        """Tell of a request. Faults are logged, not raised."""
        try:
            self._tell(observation)
        except Exception as error:
            log_unexpected(error)

    def batch(self, counts: Mapping[str, Any]) -> None:
        """Tell of some lines of a batch (`observe_batch`)."""
        try:
            self._tell_batch({name: counts.get(name, 0) for name in BATCH_COUNTS}, counts.get("failed", {}))
        except Exception as error:
            log_unexpected(error)

    def _tell(self, observation: Observation) -> None:
        # Routes that derender are posted to; of the others there is a line, and no metric.
        counts = observation.method == "POST" and observation.endpoint != OTHER
        cold_start = self._cold_start() if counts else 0
        level = _level(observation)
        if logger.isEnabledFor(level):
            logger.log(level, "request", extra=_fields(observation, cold_start=bool(cold_start)))
        if not counts:
            return
        sets: list[tuple[Dimensions, Values]] = [
            (self._dimensions(), {**_values(observation), "ColdStarts": cold_start})
        ]
        if observation.error is not None:
            sets.append((self._dimensions(Error=observation.error), {"Errors": 1}))
        if observation.outcomes:
            parser = "+".join(observation.parsers)
            sets.append((self._dimensions(Parser=parser), _outcome_values(observation.outcomes)))
        self._send(sets)

    def _tell_batch(self, counts: Mapping[str, int], failed: Mapping[str, int]) -> None:
        own = failed.get(InternalError.__name__, 0)
        values = {metric: counts[name] for name, metric in BATCH_COUNTS.items()}
        values |= {"ClientErrors": sum(failed.values()) - own, "ServerErrors": own}
        cold_start = self._cold_start()
        fields = {**counts, "failed": dict(failed), "cold_start": bool(cold_start)}
        logger.info("batch", extra={name: value for name, value in fields.items() if value})
        self._send([(self._dimensions(), {**values, "ColdStarts": cold_start})])
        for error, count in failed.items():
            self._send([(self._dimensions(Error=error), {"Errors": count})])

    def _cold_start(self) -> int:
        """1 for the first request of this process, else 0."""
        cold, self._cold = self._cold, False
        return int(cold)

    def _dimensions(self, **more: str) -> Dimensions:
        return {"Service": self._service or "", "Function": self._function, **more}

    def _send(self, sets: list[tuple[Dimensions, Values]]) -> None:
        """Send metrics, each set with dimensions of its own; one that several sets have is the same in them."""
        if self._service is None:
            return
        document: dict[str, Any] = {}
        directives: list[Any] = []
        for dimensions, values in sets:
            sent = {name: {"Unit": UNITS[name], "Value": value} for name, value in values.items() if value}
            if sent:
                document |= _PROVIDER.serialize_metric_set(sent, dimensions, {})
                directives += document["_aws"]["CloudWatchMetrics"]
        if directives:
            document["_aws"]["CloudWatchMetrics"] = directives
            _write(orjson.dumps(document).decode())


def observe_batch(counts: Mapping[str, Any]) -> None:
    """Tell of some lines of a batch, in a log line and in metrics. Faults are logged, not raised.

    Args:
        counts: How many they were and what was in them, by the names of `BATCH_COUNTS`; and `failed`, kind of
            error → how many lines have it. What else there is, is not read.
    """
    _batch_observer().batch(counts)


def as_returned(observation: Observation, response: Mapping[str, Any]) -> Observation:
    """An observation of what Lambda returns: in place of an answer that is too large for it, an error.

    Args:
        observation: Of the answer.
        response: What is returned.
    """
    if response["statusCode"] == observation.status:
        return observation
    return replace(
        observation,
        status=response["statusCode"],
        error=ResponseTooLarge.__name__,
        response_bytes=len(response["body"]),
    )


@cache
def _batch_observer() -> Observer:
    return Observer("batch")


def _service(environment: Mapping[str, str]) -> str | None:
    return environment.get("DERENDER_SERVICE", "").strip() or None


def _level(observation: Observation) -> int:
    status = observation.status
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return logging.ERROR
    if status >= HTTPStatus.BAD_REQUEST and status != CLIENT_LEFT:
        return logging.WARNING
    # The Web Adapter asks until the relay is ready.
    return logging.DEBUG if observation.endpoint == HEALTH else logging.INFO


def _fields(observation: Observation, *, cold_start: bool) -> dict[str, Any]:
    """What a log line says of a request; without what is nothing."""
    fields = {
        "request_id": observation.request_id,
        "endpoint": observation.endpoint,
        "method": observation.method,
        "status": observation.status,
        "error": observation.error,
        "duration_ms": round(observation.seconds * 1e3, 3),
        "request_bytes": observation.request_bytes,
        "response_bytes": observation.response_bytes,
        "completion_id": observation.completion_id,
        "model": observation.model,
        "streamed": observation.streamed,
        "prompt_tokens": observation.prompt_tokens,
        "completion_tokens": observation.completion_tokens,
        "choices": observation.choices,
        "candidates": observation.candidates,
        "parsers": "+".join(observation.parsers),
        "outcomes": dict(observation.outcomes),
        "state_bytes": observation.state_bytes,
        "cold_start": cold_start,
    }
    return {name: value for name, value in fields.items() if value}


def _values(observation: Observation) -> dict[str, float]:
    status = observation.status
    fault = status in UPSTREAM_FAULTS
    return {
        "Requests": 1,
        "ClientErrors": int(HTTPStatus.BAD_REQUEST <= status < CLIENT_LEFT),
        "UpstreamFaults": int(fault),
        "ServerErrors": int(status >= HTTPStatus.INTERNAL_SERVER_ERROR and not fault),
        "Duration": observation.seconds * 1e3,
        "PromptTokens": observation.prompt_tokens,
        "CompletionTokens": observation.completion_tokens,
        "Choices": observation.choices,
        "Candidates": observation.candidates,
        "StateBytes": observation.state_bytes,
        "RequestBytes": observation.request_bytes,
        "ResponseBytes": observation.response_bytes,
    }


def _outcome_values(outcomes: Mapping[str, int]) -> Values:
    return {OUTCOMES[outcome]: count for outcome, count in outcomes.items()}
