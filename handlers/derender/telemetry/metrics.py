"""Metrics: the table of what is measured, and lines in CloudWatch's embedded metric format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import orjson
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Dimensions = Mapping[str, str]
    Values = Mapping[str, float]
    """Field, as in `METRICS` → value."""

__all__ = ["METRICS", "NAMESPACE", "Metric", "metric_line"]

NAMESPACE: Final = "Derender"


class Metric(NamedTuple):
    """A metric in CloudWatch."""

    name: str
    unit: Literal["Bytes", "Count", "Milliseconds"] = "Count"


# CloudWatch charges $0.30 a month for each metric and each value of its dimensions, in the hours in which it
# is sent. A function has up to 13 metrics of its own, one for each kind of error that occurs, and 5 for each
# pair of parsers. Models and endpoints are no dimensions: log lines have them.
METRICS: Final[Mapping[str, Metric]] = {
    "requests": Metric("Requests"),
    "client_errors": Metric("ClientErrors"),
    "upstream_faults": Metric("UpstreamFaults"),
    "server_errors": Metric("ServerErrors"),
    "duration_ms": Metric("Duration", "Milliseconds"),
    "prompt_tokens": Metric("PromptTokens"),
    "completion_tokens": Metric("CompletionTokens"),
    "choices": Metric("Choices"),
    "candidates": Metric("Candidates"),
    "state_bytes": Metric("StateBytes", "Bytes"),
    "request_bytes": Metric("RequestBytes", "Bytes"),
    "response_bytes": Metric("ResponseBytes", "Bytes"),
    "cold_start": Metric("ColdStarts"),
    # By kind of error:
    "errors": Metric("Errors"),
    # By parser:
    "tool_calls": Metric("ToolCallChoices"),
    "text": Metric("TextChoices"),
    "unanswered": Metric("UnansweredChoices"),
    "cut": Metric("CutChoices"),
    "markup": Metric("MarkupTexts"),
}
"""Field → metric. Fields that are also in log lines have the same name there."""
_PROVIDER: Final = AmazonCloudWatchEMFProvider(namespace=NAMESPACE)


def metric_line(sets: Iterable[tuple[Dimensions, Values]]) -> str | None:
    """Return the line that sends some metrics, or None if all values are zero.

    Args:
        sets: Dimensions, and values that have these. A dimension has the same value in all sets that have it.
    """
    document: dict[str, Any] = {}
    directives: list[Any] = []
    for dimensions, values in sets:
        metrics = {METRICS[field]: value for field, value in values.items() if value}
        if metrics:
            # With a plus sign, a bool is a number.
            sent = {name: {"Unit": unit, "Value": +value} for (name, unit), value in metrics.items()}
            document |= _PROVIDER.serialize_metric_set(sent, dict(dimensions), {})
            directives += document["_aws"]["CloudWatchMetrics"]
    if not directives:
        return None
    document["_aws"]["CloudWatchMetrics"] = directives
    return orjson.dumps(document).decode()
