"""Metrics of AWS services that the dashboard and the alarms may read.

From their developer guides: Lambda, "Types of metrics for Lambda functions"; API Gateway, "Monitor CloudWatch
metrics for HTTP APIs"; Step Functions, "Monitoring Step Functions metrics using Amazon CloudWatch".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["AWS_METRICS"]

_NONE: Final[frozenset[str]] = frozenset()
_FUNCTION: Final = (
    frozenset({"FunctionName"}),
    frozenset({"FunctionName", "Resource"}),
    frozenset({"FunctionName", "Resource", "ExecutedVersion"}),
    _NONE,
)
_ACCOUNT: Final = (_NONE,)
_HTTP_API: Final = (frozenset({"ApiId"}), frozenset({"ApiId", "Stage"}))
_STATE_MACHINE: Final = (frozenset({"StateMachineArn"}),)

AWS_METRICS: Final[Mapping[str, Mapping[str, tuple[frozenset[str], ...]]]] = {
    "AWS/Lambda": {
        **dict.fromkeys(
            (
                *("Invocations", "Errors", "Throttles", "DeadLetterErrors", "DestinationDeliveryFailures"),
                *("ProvisionedConcurrencyInvocations", "ProvisionedConcurrencySpilloverInvocations"),
                *("RecursiveInvocationsDropped", "Duration", "PostRuntimeExtensionsDuration", "IteratorAge"),
                *("ConcurrentExecutions", "ProvisionedConcurrentExecutions"),
                *("ProvisionedConcurrencyUtilization", "AsyncEventsReceived", "AsyncEventAge"),
                "AsyncEventsDropped",
            ),
            _FUNCTION,
        ),
        "ClaimedAccountConcurrency": _ACCOUNT,
        "UnreservedConcurrentExecutions": _ACCOUNT,
    },
    "AWS/ApiGateway": dict.fromkeys(
        ("4xx", "5xx", "Count", "DataProcessed", "IntegrationLatency", "Latency"), _HTTP_API
    ),
    "AWS/States": dict.fromkeys(
        (
            *("ExecutionTime", "ExecutionThrottled", "ExecutionsAborted", "ExecutionsFailed"),
            *("ExecutionsStarted", "ExecutionsSucceeded", "ExecutionsTimedOut"),
        ),
        _STATE_MACHINE,
    ),
}
"""Namespace → metric → its sets of dimensions."""
