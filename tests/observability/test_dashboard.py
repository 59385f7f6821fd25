"""The dashboard and the alarms read what the functions send, and AWS services.

The functions run, and moto's CloudWatch gets the metrics that they write. Then the tests read everything that
the dashboard and the alarms read.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import Counter
from itertools import chain
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from moto import mock_aws

from derender.telemetry.metrics import METRICS, NAMESPACE
from derender.telemetry.tally import Tally
from derender.vocabulary import dump
from tests.support.api_client import CHAT
from tests.support.generate_protocol import chunks_of, generate_request
from tests.support.lambda_emulator import Runtime, http_event
from tests.support.paths import BUNDLED, HANDLERS
from tests.support.qwen3 import PROMPT
from tests.support.qwen3_outputs import CALL, OUTPUTS, TOOLS, encode, generated
from tests.support.relay_client import RELAY
from tests.support.upstream_server import UpstreamServer, stream
from tests.support.vocabularies import manifest

from .aws_metrics import AWS_METRICS
from .cloudwatch import Reading, Search, Store, alarm_value, alarms, read_by, resources, widgets
from .conftest import relay_script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SERVICE: Final = "stack"
COMPLETIONS: Final = "/v1/completions/derender"
NAMES: Final = {metric.name for metric in METRICS.values()}
EVERYTHING: Final = {
    "Service": SERVICE,
    "ApiFunctionName": "stack-api",
    "BatchFunctionName": "stack-batch",
    "RelayFunctionName": "stack-relay",
    "HttpApiId": "a1b2c3d4e5",
    "StateMachineArn": "arn:aws:states:eu-central-1:123456789012:stateMachine:stack-batch",
}
LEAST: Final = {name: EVERYTHING[name] for name in ("Service", "ApiFunctionName", "HttpApiId")}
WHOLE: Final = "/v1/chat/completions" + RELAY
ENTRY: Final = {"token_id": 1, "logprob": -1.0, "top_logprobs": [{"token_id": 1, "logprob": -1.0}] * 20}
TEXT: Final = encode("one two")


class Asked(NamedTuple):
    """A request, and what it adds to metrics."""

    path: str
    body: dict[str, Any]
    adds: dict[str, float]


def chat(text: str, finish_reason: str, adds: dict[str, float], **fields: Any) -> Asked:
    token_ids = encode(text)
    body = {
        "generate_response": generated(token_ids, finish_reason=finish_reason),
        "chat_request": {"tools": TOOLS},
        "prompt_tokens": 7,
        **fields,
    }
    counts = {"PromptTokens": 7, "CompletionTokens": len(token_ids), "Choices": 1}
    return Asked(CHAT, body, {**counts, **adds})


API: Final[list[Asked]] = [
    *(
        chat(text, reason, {METRICS[outcome].name: count for outcome, count in outcomes.items()})
        for text, reason, outcomes in OUTPUTS.values()
    ),
    Asked(
        COMPLETIONS,
        {
            "generate_responses": [generated(TEXT, TEXT, logprobs={"content": [ENTRY] * len(TEXT)})] * 2,
            "prompt_tokens": [3, 4],
        },
        {
            "PromptTokens": 7,
            "CompletionTokens": 4 * len(TEXT),
            "Choices": 4,
            "Candidates": 4 * 20 * len(TEXT),
        },
    ),
    Asked(
        CHAT,
        {
            "stream": True,
            "generate_chunk": {"choices": [{"index": 0, "token_ids": TEXT}]},
            "chat_request": {},
            "prompt_tokens": 9,
        },
        {"PromptTokens": 9, "CompletionTokens": len(TEXT)},
    ),
    Asked(CHAT, {}, {"ClientErrors": 1, "InvalidRequest": 1}),
    Asked(CHAT, {"generate_response": 1}, {"ClientErrors": 1, "InvalidRequest": 1}),
    Asked(CHAT, {"generate_response": generated([1]), "model": "x"}, {"ClientErrors": 1, "ModelNotFound": 1}),
    Asked(
        CHAT, {"generate_response": generated([1]), "model": "broken"}, {"ServerErrors": 1, "InternalError": 1}
    ),
]
"""Requests to the api function."""


def relayed(adds: dict[str, float], **fields: Any) -> Asked:
    client = {"messages": [], "tools": TOOLS, "stream": True}
    return Asked(WHOLE, {"generate_request": generate_request(), "chat_request": client, **fields}, adds)


RELAYED: Final[list[Asked]] = [
    relayed(
        {
            "PromptTokens": len(PROMPT),
            "CompletionTokens": len(encode(CALL)),
            "Choices": 1,
            "Candidates": 20,
            "ToolCallChoices": 1,
        }
    ),
    relayed({"PromptTokens": len(PROMPT), "UpstreamFaults": 1, "UpstreamUnreachable": 1}, upstream="gone"),
    relayed({"ClientErrors": 1, "UpstreamNotFound": 1}, upstream="x"),
    relayed({"ServerErrors": 1, "InternalError": 1}, model="broken"),
]
"""Requests to the relay."""
BATCH: Final = Tally(
    requests=100,
    failed={"InternalError": 1, "invalid_json_line": 4, "BadRequest": 5},
    prompt_tokens=700,
    completion_tokens=500,
    candidates=10_000,
)
BATCH_ADDS: Final = {
    "Requests": 100,
    "ClientErrors": 9,
    "ServerErrors": 1,
    "PromptTokens": 700,
    "CompletionTokens": 500,
    "Candidates": 10_000,
    "ColdStarts": 1,
    **BATCH.failed,
}


class Written(NamedTuple):
    """What a function wrote."""

    metrics: list[dict[str, Any]]
    lines: list[dict[str, Any]]


class Made(NamedTuple):
    """Metrics of all functions after the requests."""

    store: Store
    sums: dict[str, Counter[str]]
    """Function → metric or kind of error → sum of its values."""
    values: dict[tuple[str, str], list[float]]
    """Function and metric → values."""

    def expected(self, reading: Reading) -> float | None:
        """Return the expected value of a statistic."""
        metric = reading.metric
        function = dict(metric.dimensions)["Function"]
        assert metric.dimensions == {("Service", SERVICE), ("Function", function)}
        if (values := self.values.get((function, metric.name))) is None:
            assert reading.stat == "Sum"
            return self.sums[function].get(metric.name)
        calculate = {"Average": statistics.fmean, "Maximum": max, "SampleCount": len}
        return float(calculate[reading.stat](values))  # type: ignore[operator]


def written(logs: str) -> Written:
    lines = [json.loads(line) for line in logs.splitlines() if line.startswith("{")]
    return Written(
        [line for line in lines if "_aws" in line], [line for line in lines if line.get("message") == "request"]
    )


def sums(asked: Sequence[Asked]) -> Counter[str]:
    total: Counter[str] = Counter({"Requests": len(asked), "ColdStarts": 1})
    for each in asked:
        total.update(each.adds)
    return total


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a layer with the bundled vocabulary and a damaged one, which causes an internal error."""
    folder = tmp_path_factory.mktemp("layer")
    (bundled,) = BUNDLED.glob("*.vocab")
    (folder / bundled.name).write_bytes(bundled.read_bytes())
    content = dump(manifest(name="broken"), [b"a", b"b", b"c"])
    (folder / "broken.vocab").write_bytes(content[:-1] + b"x")
    return folder


@pytest.fixture(scope="module")
def made(layer: Path) -> Iterator[Made]:
    environment = {"DERENDER_SERVICE": SERVICE, "DERENDER_LAYER": str(layer), "DERENDER_MODEL": "Qwen3"}
    values: dict[tuple[str, str], list[float]] = {}
    with Runtime(environment=environment) as function:
        answers = [function.invoke(http_event(each.path, json.dumps(each.body))) for each in API]
        function.invoke(http_event("/v1/models", method="GET"))  # has no part in any metric
        api = written(function.logs)
    values["api", "RequestBytes"] = [len(json.dumps(each.body)) for each in API]
    values["api", "ResponseBytes"] = [len(each["body"].encode()) for each in answers]
    states = [json.loads(each["body"]).get("stream_state") for each in answers]
    values["api", "StateBytes"] = [len(state["data"]) for state in states if state]
    with UpstreamServer() as upstream, TemporaryFile() as log:
        chunks = chunks_of(encode(CALL))
        chunks[0]["choices"][0]["logprobs"] = {"content": [ENTRY]}
        upstream.replies(stream(chunks))
        upstreams = json.dumps({"gpu": upstream.url, "gone": "http://127.0.0.1:9"})
        with relay_script(log, {**environment, "DERENDER_UPSTREAMS": upstreams}) as asking:
            responses = [asking.post(each.path, json=each.body) for each in RELAYED]
        of_relay = written(os.pread(log.fileno(), 1 << 20, 0).decode())
    values["relay", "RequestBytes"] = [len(response.request.content) for response in responses]
    values["relay", "ResponseBytes"] = [len(response.content) for response in responses]
    batch = (
        "from derender.telemetry.log_lines import configure_logging\n"
        "from derender.telemetry.observer import Observer\n"
        "from derender.telemetry.tally import Tally\n"
        f"configure_logging('batch')\nObserver('batch').report_lines({BATCH})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", batch],
        env={**environment, "PYTHONPATH": str(HANDLERS)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    for name, lines in (("api", api.lines), ("relay", of_relay.lines)):
        asked = [line["duration_ms"] for line in lines if line["method"] == "POST"]
        values[name, "Duration"] = asked
    with mock_aws():
        store = Store()
        store.put(chain(api.metrics, of_relay.metrics, written(done.stdout.decode()).metrics))
        yield Made(
            store,
            {"api": sums(API), "relay": sums(RELAYED), "batch": Counter(BATCH_ADDS)},
            values,
        )


def everything_read() -> list[Reading | Search]:
    """Return everything that the dashboard and the alarms read, each once."""
    readers = (*widgets(EVERYTHING), *alarms(EVERYTHING).values())
    return list({repr(each): each for reader in readers for each in read_by(reader)}.values())


READ: Final = everything_read()
OWN: Final = [each for each in READ if isinstance(each, Reading) and each.metric.namespace == NAMESPACE]
OTHERS: Final = [each for each in READ if isinstance(each, Reading) and each.metric.namespace != NAMESPACE]
SEARCHES: Final = [each for each in READ if isinstance(each, Search)]


# --- metrics ---------------------------------------------------------------------------


def name_of(read: Reading | Search) -> str:
    if isinstance(read, Search):
        return " ".join(read.terms.values())
    return " ".join([dict(read.metric.dimensions).get("Function", ""), read.metric.name, read.stat])


@pytest.mark.parametrize("reading", OWN, ids=name_of)
def test_statistics_match_the_requests(made: Made, reading: Reading) -> None:
    if reading.stat.startswith("p"):
        # moto has no percentiles, so check that all values arrived.
        for stat in ("SampleCount", "Average", "Maximum"):
            test_statistics_match_the_requests(made, reading._replace(stat=stat))
        return
    expected = made.expected(reading)
    assert expected is not None, "no request makes it"
    # A line rounds to microseconds what a metric does not.
    assert made.store.value(reading) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("search", SEARCHES, ids=name_of)
def test_searches_match_the_requests(made: Made, search: Search) -> None:
    found = {
        (dict(metric.dimensions)["Function"], dict(metric.dimensions).get("Error") or metric.name): value
        for metric, value in made.store.found(search).items()
    }
    functions = [search.terms["Function"]] if "Function" in search.terms else list(made.sums)
    wanted = {search.terms["MetricName"]}
    if "Error" in search.names:
        wanted = {name for function in functions for name in made.sums[function] if name not in NAMES}
    assert found == {
        (function, name): count
        for function in functions
        for name, count in made.sums[function].items()
        if name in wanted
    }
    assert found


def test_every_metric_is_read(made: Made) -> None:
    sent = made.store.metrics()
    assert {metric.name for metric in sent} == NAMES
    read = {reading.metric for reading in OWN}
    assert [
        metric for metric in sent if metric not in read and not any(each.finds(metric) for each in SEARCHES)
    ] == []


@pytest.mark.parametrize("reading", OTHERS, ids=name_of)
def test_metrics_of_aws_exist(reading: Reading) -> None:
    namespace, name, dimensions = reading.metric
    assert frozenset(each for each, _ in dimensions) in AWS_METRICS[namespace][name]
    assert dict(dimensions).items() <= {
        ("FunctionName", "stack-api"),
        ("FunctionName", "stack-batch"),
        ("FunctionName", "stack-relay"),
        ("ApiId", EVERYTHING["HttpApiId"]),
        ("StateMachineArn", EVERYTHING["StateMachineArn"]),
    }


# --- alarms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "least_requests", "value"),
    [
        ("InternalErrors", 1, 3),
        ("RefusedRequests", 1, 100 * 4 / (len(API) + len(RELAYED))),
        ("RefusedRequests", 1000, 0),
        ("UpstreamFaults", 1, 25),
        ("UpstreamFaults", 1000, 0),
        ("BatchLinesRefused", 1, 9),
        ("BatchLinesRefused", 1000, 0),
    ],
)
def test_alarms_match_the_requests(made: Made, name: str, least_requests: int, value: float) -> None:
    alarm = alarms({**EVERYTHING, "LeastRequests": str(least_requests)})[name]
    assert alarm_value(made.store.value, alarm) == pytest.approx(value)


@pytest.mark.parametrize("parameters", [LEAST, EVERYTHING], ids=["least", "everything"])
def test_without_data_no_alarm_starts(parameters: dict[str, str]) -> None:
    for name, alarm in alarms(parameters).items():
        assert alarm["TreatMissingData"] == "notBreaching", name
        if "Metrics" in alarm:
            assert alarm_value(lambda _: None, alarm) in (None, 0), name


def test_alarms_follow_the_parts_of_the_stack() -> None:
    everything, least = alarms(EVERYTHING).keys(), alarms(LEAST).keys()
    assert everything - least == {"UpstreamFaults", "BatchesFailed", "BatchLinesRefused"}
    names = [alarm["AlarmName"] for alarm in alarms(EVERYTHING).values()]
    assert len(set(names)) == len(names)
    assert all(name.startswith(f"{SERVICE}-") for name in names)
    dimensions = [
        value
        for alarm in alarms(LEAST).values()
        for reading in read_by(alarm)
        if isinstance(reading, Reading)
        for _, value in reading.metric.dimensions
    ]
    assert "" not in dimensions


@pytest.mark.parametrize("topic", ["", "arn:aws:sns:eu-central-1:123456789012:alarms"])
def test_alarms_notify_the_topic(topic: str) -> None:
    for alarm in alarms({**EVERYTHING, "AlarmTopicArn": topic}).values():
        for actions in ("AlarmActions", "OKActions"):
            assert alarm.get(actions) == ([topic] if topic else None)


def test_each_alarm_says_what_to_do() -> None:
    for name, alarm in alarms(EVERYTHING).items():
        assert 80 < len(alarm["AlarmDescription"]) <= 1024, name


# --- the templates ----------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [LEAST, EVERYTHING], ids=["least", "everything"])
def test_widgets_do_not_overlap(parameters: dict[str, str]) -> None:
    taken: set[tuple[int, int]] = set()
    (dashboard,) = resources("dashboard.yaml", parameters).values()
    for widget in json.loads(dashboard["DashboardBody"])["widgets"]:
        columns = range(widget["x"], widget["x"] + widget["width"])
        places = {(x, y) for x in columns for y in range(widget["y"], widget["y"] + widget["height"])}
        assert columns.stop <= 24
        assert not taken & places
        taken |= places
        assert widget["properties"]["region"] == "eu-central-1"
        assert "${" not in str(widget["properties"]["metrics"]).replace("${PROP(", "")
    assert len(taken) == 24 * (1 + max(y for _, y in taken))
