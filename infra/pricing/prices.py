"""List prices of AWS in us-east-1, in dollars: the first tier, without free tier and discounts.

docs/cost.md names the source of each.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

__all__ = ["ARCHITECTURES", "AS_OF", "HOURS", "PRICES", "SECONDS", "Architecture", "Price"]

Architecture = Literal["x86_64", "arm64"]
ARCHITECTURES: Final[tuple[Architecture, ...]] = get_args(Architecture)

AS_OF: Final = "June 2026"
"""Date of the latest source."""
HOURS: Final = 730
"""Hours of a month, as AWS counts them."""
SECONDS: Final = 3600 * HOURS
"""Seconds of a month."""


class Price(NamedTuple):
    """A price for a number of units."""

    dollars: float
    units: int
    unit: str
    page: str
    """Path of AWS's page below https://aws.amazon.com."""

    @property
    def each(self) -> float:
        """Dollars per unit."""
        return self.dollars / self.units


_LAMBDA: Final = "/lambda/pricing"
_GATEWAY: Final = "/api-gateway/pricing"
_CLOUDWATCH: Final = "/cloudwatch/pricing"
_STEPS: Final = "/step-functions/pricing"
_S3: Final = "/s3/pricing"
_FARGATE: Final = "/fargate/pricing"

PRICES: Final = {
    "Lambda requests": Price(0.20, 1_000_000, "request", _LAMBDA),
    "Lambda compute, x86_64": Price(0.0000166667, 1, "GB-second", _LAMBDA),
    "Lambda compute, arm64": Price(0.0000133334, 1, "GB-second", _LAMBDA),
    "provisioned concurrency, x86_64": Price(0.0000041667, 1, "GB-second", _LAMBDA),
    "provisioned concurrency, arm64": Price(0.0000033334, 1, "GB-second", _LAMBDA),
    "provisioned compute, x86_64": Price(0.0000097222, 1, "GB-second", _LAMBDA),
    "provisioned compute, arm64": Price(0.0000077778, 1, "GB-second", _LAMBDA),
    "SnapStart cache": Price(0.0000015046, 1, "GB-second", _LAMBDA),
    "SnapStart restore": Price(0.0001397998, 1, "GB", _LAMBDA),
    "function URL": Price(0, 1_000_000, "request", _LAMBDA),
    "HTTP API": Price(1.00, 1_000_000, "request", _GATEWAY),
    "REST API": Price(3.50, 1_000_000, "request", _GATEWAY),
    "logs": Price(0.50, 1, "GB", _CLOUDWATCH),
    "metrics": Price(0.30, 1, "metric per month", _CLOUDWATCH),
    "alarms": Price(0.10, 1, "metric in an alarm per month", _CLOUDWATCH),
    "dashboard": Price(3.00, 1, "dashboard per month", _CLOUDWATCH),
    "traces": Price(5.00, 1_000_000, "trace", "/xray/pricing"),
    "Step Functions": Price(0.025, 1_000, "transition", _STEPS),
    "S3 writes and lists": Price(0.005, 1_000, "request", _S3),
    "S3 reads": Price(0.0004, 1_000, "request", _S3),
    "Fargate CPU": Price(0.04048, 1, "vCPU-hour", _FARGATE),
    "Fargate memory": Price(0.004445, 1, "GB-hour", _FARGATE),
}
