"""The observer: what it writes about requests and about lines of batches."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace

from derender.telemetry.log_lines import configure_logging
from derender.telemetry.observation import CLIENT_LEFT, OTHER, AnswerFacts, Observation
from derender.telemetry.observer import Observer
from derender.telemetry.tally import Tally
from tests.support.api_client import CHAT

if TYPE_CHECKING:
    from tests.support.log_lines import LogLines

DERENDERED: Final = Observation(
    endpoint=CHAT,
    method="POST",
    status=200,
    duration_ms=12.5,
    request_bytes=100,
    response_bytes=200,
    request_id="request-1",
    answer=AnswerFacts(
        completion_id="generate-1",
        model="Qwen3",
        parsers=("hermes", "qwen3"),
        tally=Tally(prompt_tokens=7, completion_tokens=5, choices=2, outcomes={"text": 1, "cut": 1}),
    ),
)
REFUSED: Final = Observation(
    endpoint=CHAT,
    method="POST",
    status=400,
    duration_ms=1.0,
    request_bytes=1,
    response_bytes=100,
    request_id="request-2",
    error="InvalidRequest",
)


def observe(*observations: Observation, **environment: str) -> None:
    observer = Observer("api", environment)
    for observation in observations:
        observer(observation)


def read_metrics(log_lines: LogLines) -> list[dict[str, Any]]:
    return [line for line in log_lines() if "_aws" in line]


# --- log lines ------------------------------------------------------------------------------------------------


def test_a_request_is_a_line(log_lines: LogLines) -> None:
    observe(DERENDERED, REFUSED)
    first, second = log_lines()
    del first["timestamp"], second["timestamp"]
    assert first == {
        "level": "INFO",
        "message": "request",
        "service": "stack",
        "function": "api",
        "request_id": "request-1",
        "endpoint": CHAT,
        "method": "POST",
        "status": 200,
        "duration_ms": 12.5,
        "request_bytes": 100,
        "response_bytes": 200,
        "completion_id": "generate-1",
        "model": "Qwen3",
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "choices": 2,
        "parsers": "hermes+qwen3",
        "outcomes": {"text": 1, "cut": 1},
        "cold_start": True,
    }
    assert first["cold_start"] is True
    assert (second["level"], second["status"], second["error"]) == ("WARNING", 400, "InvalidRequest")
    assert second.keys().isdisjoint({"prompt_tokens", "outcomes", "cold_start"})


@pytest.mark.parametrize(
    ("status", "endpoint", "level"),
    [
        (200, CHAT, "INFO"),
        (200, "/health", "DEBUG"),
        (200, "/ping", "DEBUG"),
        (404, OTHER, "WARNING"),
        (CLIENT_LEFT, CHAT, "INFO"),
        (500, CHAT, "ERROR"),
        (502, CHAT, "ERROR"),
        (503, "/health", "ERROR"),
    ],
)
def test_the_level_depends_on_the_status(log_lines: LogLines, status: int, endpoint: str, level: str) -> None:
    observe(replace(DERENDERED, status=status, endpoint=endpoint))
    assert [line["level"] for line in log_lines()] == [level]


# --- metrics --------------------------------------------------------------------------------------------------


def test_metrics_need_a_service(log_lines: LogLines) -> None:
    observe(DERENDERED)
    assert read_metrics(log_lines) == []


def test_metrics_of_a_request(log_lines: LogLines) -> None:
    observe(DERENDERED, DERENDER_SERVICE="stack")
    (document,) = read_metrics(log_lines)
    assert document.pop("_aws")["CloudWatchMetrics"] == [
        {
            "Namespace": "Derender",
            "Dimensions": [["Service", "Function"]],
            "Metrics": [
                {"Name": "Requests", "Unit": "Count"},
                {"Name": "Duration", "Unit": "Milliseconds"},
                {"Name": "PromptTokens", "Unit": "Count"},
                {"Name": "CompletionTokens", "Unit": "Count"},
                {"Name": "Choices", "Unit": "Count"},
                {"Name": "RequestBytes", "Unit": "Bytes"},
                {"Name": "ResponseBytes", "Unit": "Bytes"},
                {"Name": "ColdStarts", "Unit": "Count"},
            ],
        },
        {
            "Namespace": "Derender",
            "Dimensions": [["Service", "Function", "Parser"]],
            "Metrics": [{"Name": "TextChoices", "Unit": "Count"}, {"Name": "CutChoices", "Unit": "Count"}],
        },
    ]
    assert json.dumps(document) == json.dumps(
        {
            "Service": "stack",
            "Function": "api",
            "Requests": 1,
            "Duration": 12.5,
            "PromptTokens": 7,
            "CompletionTokens": 5,
            "Choices": 2,
            "RequestBytes": 100,
            "ResponseBytes": 200,
            "ColdStarts": 1,
            "Parser": "hermes+qwen3",
            "TextChoices": 1,
            "CutChoices": 1,
        }
    )


@pytest.mark.parametrize(
    ("status", "metric"),
    [
        (400, "ClientErrors"),
        (413, "ClientErrors"),
        (429, "ClientErrors"),
        (CLIENT_LEFT, None),
        (500, "ServerErrors"),
        (502, "UpstreamFaults"),
        (503, "UpstreamFaults"),
        (504, "UpstreamFaults"),
    ],
)
def test_an_error_counts_for_the_side_that_caused_it(
    log_lines: LogLines, status: int, metric: str | None
) -> None:
    observe(replace(REFUSED, status=status, error="Kind"), DERENDER_SERVICE="stack")
    (document,) = read_metrics(log_lines)
    sides = {"ClientErrors", "ServerErrors", "UpstreamFaults"}
    assert document.keys() & sides == ({metric} if metric else set())
    assert (document["Error"], document["Errors"]) == ("Kind", 1)


@pytest.mark.parametrize(
    "observation",
    [
        replace(DERENDERED, method="GET", endpoint="/v1/models"),
        replace(DERENDERED, method="GET", endpoint="/health"),
        replace(DERENDERED, endpoint="/ping"),
        replace(DERENDERED, endpoint="/detokenize"),
        replace(REFUSED, endpoint=OTHER, status=404),
        replace(REFUSED, method="GET", status=405),
    ],
)
def test_requests_that_do_not_derender_have_no_metrics(log_lines: LogLines, observation: Observation) -> None:
    observe(observation, observation, DERENDERED, DERENDER_SERVICE="stack")
    (document,) = read_metrics(log_lines)
    assert document["ColdStarts"] == 1


@pytest.mark.parametrize(
    ("initialization", "cold_starts"),
    [("on-demand", [1, 0]), ("snap-start", [1, 0]), ("provisioned-concurrency", [0, 0])],
)
def test_a_start_that_somebody_waited_for_is_cold(
    log_lines: LogLines, initialization: str, cold_starts: list[int]
) -> None:
    observe(DERENDERED, DERENDERED, DERENDER_SERVICE="stack", AWS_LAMBDA_INITIALIZATION_TYPE=initialization)
    assert [document.get("ColdStarts", 0) for document in read_metrics(log_lines)] == cold_starts


def test_metrics_are_sent_at_every_level(log_lines: LogLines) -> None:
    configure_logging("api", {"DERENDER_LOG_LEVEL": "CRITICAL"})
    observe(DERENDERED, DERENDER_SERVICE="stack")
    (document,) = log_lines()
    assert "_aws" in document


# --- batches --------------------------------------------------------------------------------------------------


def observe_lines(*tallies: Tally) -> None:
    observer = Observer("batch", {"DERENDER_SERVICE": "stack"})
    for tally in tallies:
        observer.report_lines(tally)


def test_lines_of_a_batch(log_lines: LogLines) -> None:
    failed = {"InternalError": 1, "invalid_json_line": 4}
    observe_lines(Tally(requests=1000, failed=failed, prompt_tokens=7000, completion_tokens=5000), Tally())
    line, totals, error, empty = log_lines()
    assert (line["message"], line["level"], line["requests"]) == ("batch", "INFO", 1000)
    assert line["failed"] == failed
    assert {name: value for name, value in totals.items() if name != "_aws"} == {
        "Service": "stack",
        "Function": "batch",
        "Requests": 1000,
        "ClientErrors": 4,
        "ServerErrors": 1,
        "PromptTokens": 7000,
        "CompletionTokens": 5000,
        "ColdStarts": 1,
        "Error": "InternalError",
        "Errors": 1,
    }
    # A line of metrics has one value for each dimension.
    assert (error["Error"], error["Errors"]) == ("invalid_json_line", 4)
    assert "_aws" not in empty


# --- faults ---------------------------------------------------------------------------------------------------


def test_a_fault_of_the_observer_is_logged(log_lines: LogLines, caplog: pytest.LogCaptureFixture) -> None:
    tally = Tally(outcomes={"quixotic": 1})  # type: ignore[dict-item]
    observe(replace(DERENDERED, answer=AnswerFacts(tally=tally)), DERENDER_SERVICE="stack")
    *_, line = log_lines()
    assert "unexpected KeyError" in line["message"]
    assert "quixotic" not in json.dumps(line)
    observe_lines(Tally(failed={"kind": "quixotic"}))  # type: ignore[dict-item]
    *_, line = log_lines()
    assert "unexpected TypeError" in line["message"]
    assert caplog.get_records("call")[-1].levelno == logging.ERROR
