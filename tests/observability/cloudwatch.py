"""CloudWatch: metrics from lines in the embedded metric format, and what templates read of them."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import boto3
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mypy_boto3_cloudwatch import CloudWatchClient

__all__ = ["Metric", "Reading", "Search", "Store", "alarm_value", "alarms", "read_by", "resources", "widgets"]

INFRA: Final = Path(__file__).parents[2] / "infra"
NO_VALUE: Final = {"Ref": "AWS::NoValue"}
_SEARCH: Final = re.compile(r"SEARCH\('\{([^}]*)\} ([^']*)', '(\w+)'\)")
_TERM: Final = re.compile(r'(\w+)="([^"]*)"')


class Metric(NamedTuple):
    """A metric, as CloudWatch bills it."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]


class Reading(NamedTuple):
    """A statistic of a metric that something reads."""

    metric: Metric
    stat: str


class Search(NamedTuple):
    """A statistic of all metrics that a search finds."""

    namespace: str
    names: frozenset[str]
    """Names of the dimensions."""
    terms: Mapping[str, str]
    """Values of dimensions and of `MetricName`."""
    stat: str

    def finds(self, metric: Metric) -> bool:
        """Return whether the search finds a metric."""
        values = {**dict(metric.dimensions), "MetricName": metric.name}
        return (
            metric.namespace == self.namespace
            and {name for name, _ in metric.dimensions} == self.names
            and self.terms.items() <= values.items()
        )


# --- metrics --------------------------------------------------------------------------------------------------


class Store:
    """Metrics in CloudWatch, which moto stands in for."""

    def __init__(self) -> None:
        self._client: CloudWatchClient = boto3.client("cloudwatch", region_name="eu-central-1")

    def put(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Extract metrics as the embedded metric format's specification says."""
        for document in documents:
            assert len(json.dumps(document)) < 1_000_000
            root = document["_aws"]
            assert type(root["Timestamp"]) is int
            for directive in root["CloudWatchMetrics"]:
                assert directive.keys() == {"Namespace", "Dimensions", "Metrics"}
                assert 0 < len(directive["Metrics"]) <= 100
                for names in directive["Dimensions"]:
                    self._put(document, directive, names)

    def _put(self, document: Mapping[str, Any], directive: Mapping[str, Any], names: list[str]) -> None:
        assert len(names) <= 30
        values = {name: document[name] for name in sorted(names)}
        assert all(isinstance(value, str) and 0 < len(value) <= 1024 for value in values.values())
        for metric in directive["Metrics"]:
            value = document[metric["Name"]]
            assert type(value) in (int, float), metric
            self._client.put_metric_data(
                Namespace=directive["Namespace"],
                MetricData=[
                    {
                        "MetricName": metric["Name"],
                        "Dimensions": [{"Name": name, "Value": text} for name, text in values.items()],
                        "Timestamp": datetime.fromtimestamp(document["_aws"]["Timestamp"] / 1000, UTC),
                        "Unit": metric["Unit"],
                        "Value": value,
                    }
                ],
            )

    def metrics(self) -> list[Metric]:
        """Return all metrics."""
        pages = self._client.get_paginator("list_metrics").paginate()
        return [
            Metric(
                each["Namespace"],
                each["MetricName"],
                frozenset((dimension["Name"], dimension["Value"]) for dimension in each["Dimensions"]),
            )
            for page in pages
            for each in page["Metrics"]
        ]

    def value(self, reading: Reading) -> float | None:
        """Return a statistic over all time."""
        metric = reading.metric
        if metric not in self.metrics():
            return None
        now = datetime.now(UTC)
        result = self._client.get_metric_data(
            MetricDataQueries=[
                {
                    "Id": "m",
                    "MetricStat": {
                        "Metric": {
                            "Namespace": metric.namespace,
                            "MetricName": metric.name,
                            "Dimensions": [
                                {"Name": name, "Value": text} for name, text in sorted(metric.dimensions)
                            ],
                        },
                        "Period": 86_400,
                        "Stat": reading.stat,
                    },
                }
            ],
            StartTime=now - timedelta(hours=12),
            EndTime=now + timedelta(hours=1),
        )
        (value,) = result["MetricDataResults"][0]["Values"]
        return value

    def found(self, search: Search) -> dict[Metric, float | None]:
        """Return the metrics that a search finds, with their statistics."""
        found = [metric for metric in self.metrics() if search.finds(metric)]
        return {metric: self.value(Reading(metric, search.stat)) for metric in found}


# --- templates ------------------------------------------------------------------------------------------------


def resources(name: str, parameters: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the properties of the resources that a template in `infra` creates, by name."""
    template = yaml_parse((INFRA / name).read_text(encoding="utf-8"))
    assert parameters.keys() <= template["Parameters"].keys()
    values: dict[str, Any] = {
        each: parameter["Default"]
        for each, parameter in template["Parameters"].items()
        if "Default" in parameter
    }
    values |= {"AWS::Region": "eu-central-1", "AWS::NoValue": NO_VALUE, **parameters}
    assert template["Parameters"].keys() <= values.keys()

    def holds(condition: str) -> bool:
        return bool(resolved(template["Conditions"][condition]))

    def resolved(value: Any) -> Any:
        match value:
            case {"Ref": str(reference)}:
                return values[reference]
            case {"Fn::Equals": [left, right]}:
                return resolved(left) == resolved(right)
            case {"Fn::Not": [condition]}:
                return not resolved(condition)
            case {"Fn::If": [condition, then, otherwise]}:
                return resolved(then if holds(condition) else otherwise)
            case {"Fn::Sub": str(text)}:
                return substituted(text, {})
            case {"Fn::Sub": [text, names]}:
                return substituted(text, resolved(names))
            case dict():
                made = {each: resolved(item) for each, item in value.items()}
                return {each: item for each, item in made.items() if item != NO_VALUE}
            case list():
                return [item for item in map(resolved, value) if item != NO_VALUE]
        return value

    def substituted(text: str, names: Mapping[str, str]) -> str:
        known = {**values, **names}

        def replacement(match: re.Match[str]) -> str:
            return "${" + match[2] + "}" if match[1] else str(known[match[2]])

        return re.sub(r"\$\{(!?)([^}]+)\}", replacement, text)

    return {
        each: resolved(resource["Properties"])
        for each, resource in template["Resources"].items()
        if "Condition" not in resource or holds(resource["Condition"])
    }


def widgets(parameters: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the properties of the dashboard's widgets."""
    (dashboard,) = resources("dashboard.yaml", parameters).values()
    return [widget["properties"] for widget in json.loads(dashboard["DashboardBody"])["widgets"]]


def alarms(parameters: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the properties of the alarms, by name."""
    return resources("alarms.yaml", parameters)


def read_by(properties: Mapping[str, Any]) -> Iterator[Reading | Search]:
    """Return what a widget or an alarm reads."""
    if "metrics" in properties:
        for line in properties["metrics"]:
            yield _of_line(line, properties.get("stat", "Average"))
    elif "MetricName" in properties:
        stat = properties.get("Statistic") or properties["ExtendedStatistic"]
        yield Reading(_of_alarm(properties), stat)
    else:
        for query in properties["Metrics"]:
            if "MetricStat" in query:
                yield Reading(_of_alarm(query["MetricStat"]["Metric"]), query["MetricStat"]["Stat"])


def alarm_value(read: Callable[[Reading], float | None], properties: Mapping[str, Any]) -> float | None:
    """Return what an alarm of metric math compares with its threshold, or None without data.

    Args:
        read: Returns the value of a statistic, if there is one.
        properties: Properties of the alarm.
    """
    values: dict[str, float | None] = {}
    expressions: list[str] = []
    for query in properties["Metrics"]:
        if "Expression" in query:
            assert query.get("ReturnData", True)
            expressions.append(query["Expression"])
        else:
            assert query["ReturnData"] is False
            stat = query["MetricStat"]
            values[query["Id"]] = read(Reading(_of_alarm(stat["Metric"]), stat["Stat"]))
    (expression,) = expressions
    assert set(re.findall(r"\b[a-z]\w*", expression)) == values.keys()
    functions = {
        "FILL": lambda value, otherwise: otherwise if value is None else value,
        "IF": lambda condition, then, otherwise: then if condition else otherwise,
    }
    # The alarms' metric math is also Python. Operations on missing values and divisions by zero have no value.
    with suppress(TypeError, ZeroDivisionError):
        return cast("float", eval(expression, {"__builtins__": {}, **functions, **values}))  # noqa: S307
    return None


def _of_line(line: list[Any], stat: str) -> Reading | Search:
    *named, options = line if isinstance(line[-1], dict) else [*line, {}]
    if not named:
        match = _SEARCH.fullmatch(options["expression"])
        assert match is not None, options["expression"]
        namespace, *names = match[1].split(",")
        assert _TERM.sub("", match[2]).strip() == ""
        return Search(namespace, frozenset(names), dict(_TERM.findall(match[2])), match[3])
    namespace, name, *dimensions = named
    pairs = frozenset(zip(dimensions[::2], dimensions[1::2], strict=True))
    return Reading(Metric(namespace, name, pairs), options.get("stat", stat))


def _of_alarm(metric: Mapping[str, Any]) -> Metric:
    dimensions = frozenset((each["Name"], each["Value"]) for each in metric.get("Dimensions", []))
    return Metric(metric["Namespace"], metric["MetricName"], dimensions)
