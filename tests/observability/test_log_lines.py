"""Log lines and metrics, as the functions write them."""

from __future__ import annotations

import asyncio
import json
import logging
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.errors import BadRequest
from derender.settings import SettingsError
from derender.telemetry.faults import log_unexpected
from derender.telemetry.log_lines import configure_logging
from derender.telemetry.observation import CLIENT_LEFT, OTHER, AnswerFacts, Observation
from derender.telemetry.observer import Observer
from derender.telemetry.request_ids import REQUEST_ID
from derender.telemetry.tally import Tally
from lambda_runtime.invocation import begin_invocation
from lambda_runtime.web_adapter import WebAdapter
from tests.support.api_client import CHAT
from tests.support.functions import started
from tests.support.lambda_emulator import Runtime, http_event

from .conftest import generated

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Message, Receive, Scope, Send

    Lines = Callable[[], list[dict[str, Any]]]

logger: Final = logging.getLogger("derender")
DERENDERED: Final = Observation(
    endpoint=CHAT,
    method="POST",
    status=200,
    seconds=0.0125,
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
    seconds=0.001,
    request_bytes=1,
    response_bytes=100,
    request_id="request-2",
    error="InvalidRequest",
)


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    """What was written since the last call, each line read; nothing is written but JSON."""

    def read() -> list[dict[str, Any]]:
        out, err = capsys.readouterr()
        assert err == ""
        return [json.loads(line) for line in out.splitlines()]

    return read


@pytest.fixture
def _configured() -> None:
    configure_logging("api", {"DERENDER_SERVICE": "stack", "DERENDER_LOG_LEVEL": "DEBUG"})


# --- lines ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_configured")
def test_a_line_says_when_how_bad_and_of_what(lines: Lines) -> None:
    logger.error("no %s", "luck")
    (line,) = lines()
    assert line.pop("timestamp").endswith("+00:00")
    assert line == {"level": "ERROR", "message": "no luck", "service": "stack", "function": "api"}


@pytest.mark.parametrize(
    ("setting", "written"),
    [
        ("", ["INFO", "WARNING", "ERROR"]),
        ("debug", ["DEBUG", "INFO", "WARNING", "ERROR"]),
        (" WARNING ", ["WARNING", "ERROR"]),
        ("CRITICAL", []),
    ],
)
def test_the_level_is_a_setting(lines: Lines, setting: str, written: list[str]) -> None:
    configure_logging("api", {"DERENDER_LOG_LEVEL": setting})
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logger.log(level, "x")
    assert [line["level"] for line in lines()] == written


def test_a_level_that_there_is_not() -> None:
    with pytest.raises(SettingsError, match=r"^DERENDER_LOG_LEVEL must be one of DEBUG, INFO, "):
        configure_logging("api", {"DERENDER_LOG_LEVEL": "loud"})


def test_a_bad_level_stops_the_start_with_one_line() -> None:
    with Runtime(environment={"DERENDER_LOG_LEVEL": "loud"}) as function:
        with pytest.raises(RuntimeError, match="did not answer"):
            function.invoke(http_event(CHAT, "{}"))
        logs = function.logs
    assert logs.count("derender: DERENDER_LOG_LEVEL must be one of DEBUG") == 1
    assert "Traceback" not in logs


@pytest.mark.parametrize("name", ["mangum.http", "httpx", "uvicorn.error", "asyncio"])
def test_of_others_only_what_is_wrong_is_written(lines: Lines, name: str) -> None:
    configure_logging("api", {"DERENDER_LOG_LEVEL": "DEBUG"})
    other = logging.getLogger(name)
    other.info("POST /quixotic?key=quixotic")
    other.error("it failed\nfuture: <Task exception=ValueError('quixotic')>")
    (line,) = lines()
    assert (line["message"], line["logger"]) == ("it failed", name)


@pytest.mark.usefixtures("_configured")
@pytest.mark.parametrize("name", ["derender", "uvicorn.error"])
def test_of_an_error_only_the_place_is_written(lines: Lines, name: str) -> None:
    error = ValueError("quixotic")
    error.add_note("marmalade")
    try:
        raise error
    except ValueError:
        logging.getLogger(name).exception("it failed")
    (line,) = lines()
    assert line["exception_name"] == "ValueError"
    assert "test_log_lines.py" in line["exception"]
    assert not any(word in json.dumps(line) for word in ("quixotic", "marmalade"))


@pytest.mark.usefixtures("_configured")
def test_of_a_warning_only_the_kind_and_the_place_are_written(lines: Lines) -> None:
    warnings.filterwarnings("always")
    warnings.warn("quixotic", UserWarning, stacklevel=1)
    (line,) = lines()
    assert line["message"].startswith("UserWarning at ")
    assert line["level"] == "WARNING"
    assert "quixotic" not in json.dumps(line)


@pytest.mark.usefixtures("_configured")
def test_a_line_that_cannot_be_written_is_not_there(lines: Lines) -> None:
    logger.error("%d", "quixotic")
    assert lines() == []


@pytest.mark.usefixtures("_configured")
def test_a_message_that_looks_like_json_is_a_message(lines: Lines) -> None:
    logger.error('{"level": "INFO"}')
    (line,) = lines()
    assert (line["level"], line["message"]) == ("ERROR", '{"level": "INFO"}')


def test_nothing_else_writes(lines: Lines) -> None:
    """The runtime has a handler of its own by then."""
    logging.getLogger().addHandler(logging.StreamHandler())
    for _ in range(2):
        configure_logging("api", {})
    logger.error("once")
    assert len(lines()) == 1


@pytest.mark.parametrize("log_format", ["JSON", "Text"])
def test_under_the_runtime_each_line_is_there_once(log_format: str) -> None:
    body = json.dumps({"generate_response": generated([9707]), "chat_request": {}})
    with Runtime(environment={"AWS_LAMBDA_LOG_FORMAT": log_format}) as function:
        for event in (http_event(CHAT, body), http_event(CHAT, "{"), {"no": "event"}):
            function.invoke(event)
        logs = function.logs
    written = [json.loads(line) for line in logs.splitlines() if line.startswith("{")]
    assert [line["level"] for line in written] == ["INFO", "WARNING", "ERROR"]
    starts = [line.split()[2] for line in logs.splitlines() if line.startswith("START RequestId:")]
    assert [line["function_request_id"] for line in written] == starts
    assert [line.get("request_id") for line in written] == ["B0b1C2d3E4f5g6="] * 2 + [None]


# --- requests and invocations ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("_configured")
def test_each_line_of_a_request_has_its_id(lines: Lines) -> None:
    async def request(name: str) -> None:
        REQUEST_ID.set(name)
        for _ in range(3):
            await asyncio.sleep(0)
            log_unexpected(BadRequest(""))

    async def requests() -> None:
        await asyncio.gather(request("a"), request("b"))

    asyncio.run(requests())
    assert [line["request_id"] for line in lines()] == ["a", "b"] * 3


@pytest.mark.usefixtures("_configured")
def test_an_invocation_has_an_id_and_a_trace(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = "1-5759e988-bd862e3fe1be46a994272793"
    monkeypatch.setenv("_X_AMZN_TRACE_ID", f"Root={trace};Parent=53995c3f42cd8ad8;Sampled=1")
    begin_invocation("invoked-1", request_context={"requestId": "gateway-1"})
    logger.error("x")
    (line,) = lines()
    assert (line["request_id"], line["function_request_id"]) == ("gateway-1", "invoked-1")
    assert line["xray_trace_id"] == trace


@pytest.mark.usefixtures("_configured")
@pytest.mark.parametrize("request_context", [None, [], {}, {"requestId": None}, {"requestId": "two words"}])
def test_a_request_context_may_be_of_any_form(lines: Lines, request_context: object) -> None:
    begin_invocation("before", request_context={"requestId": "before"})
    begin_invocation(None, request_context=request_context)
    logger.error("x")
    (line,) = lines()
    assert line.keys().isdisjoint({"request_id", "function_request_id"})


def behind(headers: dict[str, str]) -> None:
    """A request through the adapter, whose application writes a line."""

    async def app(_: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        logger.error("x")

    async def nothing() -> Message:
        return {}

    async def nobody(_: Message) -> None:
        return

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(WebAdapter(app)({"type": "http", "headers": raw}, nothing, nobody))


@pytest.mark.usefixtures("_configured")
def test_behind_the_adapter_headers_say_it(lines: Lines) -> None:
    behind(
        {
            "x-amzn-request-context": json.dumps({"requestId": "gateway-1", "authorizer": {"key": "quixotic"}}),
            "x-amzn-lambda-context": json.dumps({"request_id": "invoked-1", "deadline": 1}),
            "x-amzn-trace-id": "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1",
        }
    )
    (line,) = lines()
    assert (line["request_id"], line["function_request_id"]) == ("gateway-1", "invoked-1")
    assert line["xray_trace_id"] == "1-5759e988-bd862e3fe1be46a994272793"
    assert "quixotic" not in json.dumps(line)


@pytest.mark.usefixtures("_configured")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-amzn-lambda-context": "quixotic", "x-amzn-request-context": "[" * 10_000},
        {"x-amzn-lambda-context": "[]", "x-amzn-trace-id": "Root=quixotic"},
        {
            "x-amzn-lambda-context": json.dumps({"request_id": "quixotic words"}),
            "x-amzn-request-context": "null",
        },
    ],
)
def test_headers_may_be_of_any_form(lines: Lines, headers: dict[str, str]) -> None:
    behind(headers)
    (line,) = lines()
    assert line.keys() == {"level", "message", "timestamp", "service", "function"}


# --- observations ---------------------------------------------------------------------------------------------


def observe(*observations: Observation, **environment: str) -> None:
    observer = Observer("api", environment)
    for observation in observations:
        observer(observation)


@pytest.mark.usefixtures("_configured")
def test_a_request_is_a_line(lines: Lines) -> None:
    observe(DERENDERED, REFUSED)
    first, second = lines()
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
    assert (second["level"], second["status"], second["error"]) == ("WARNING", 400, "InvalidRequest")
    assert second.keys().isdisjoint({"prompt_tokens", "outcomes", "cold_start"})


@pytest.mark.usefixtures("_configured")
@pytest.mark.parametrize(
    ("status", "endpoint", "level"),
    [
        (200, CHAT, "INFO"),
        (200, "/health", "DEBUG"),
        (404, OTHER, "WARNING"),
        (CLIENT_LEFT, CHAT, "INFO"),
        (500, CHAT, "ERROR"),
        (502, CHAT, "ERROR"),
        (503, "/health", "ERROR"),
    ],
)
def test_the_level_is_how_bad_it_is(lines: Lines, status: int, endpoint: str, level: str) -> None:
    observe(replace(DERENDERED, status=status, endpoint=endpoint))
    assert [line["level"] for line in lines()] == [level]


def test_an_answer_that_lambda_does_not_take_is_an_error(lines: Lines) -> None:
    body = json.dumps({"generate_responses": [generated([0] * 40_000)] * 160})
    with started({"DERENDER_SERVICE": "stack"}) as function:
        configure_logging("api", {})
        response = function(http_event("/v1/completions/derender", body))
    assert response["statusCode"] == 413
    line, metrics = lines()
    assert (line["status"], line["error"], line["level"]) == (413, "ResponseTooLarge", "WARNING")
    assert line["response_bytes"] == len(response["body"])
    assert line["request_id"] == response["headers"]["x-request-id"]
    assert (metrics["Error"], metrics["ClientErrors"]) == ("ResponseTooLarge", 1)


# --- metrics --------------------------------------------------------------------------------------------------


def metrics_of(lines: Lines) -> list[dict[str, Any]]:
    return [line for line in lines() if "_aws" in line]


def test_there_are_metrics_where_a_service_is_named(lines: Lines) -> None:
    observe(DERENDERED)
    assert metrics_of(lines) == []
    observe(DERENDERED, DERENDER_SERVICE="stack")
    (document,) = metrics_of(lines)
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
    assert document == {
        "Service": "stack",
        "Function": "api",
        "Parser": "hermes+qwen3",
        "Requests": 1,
        "Duration": 12.5,
        "PromptTokens": 7,
        "CompletionTokens": 5,
        "Choices": 2,
        "RequestBytes": 100,
        "ResponseBytes": 200,
        "ColdStarts": 1,
        "TextChoices": 1,
        "CutChoices": 1,
    }


@pytest.mark.parametrize(
    ("status", "metric"),
    [
        (400, "ClientErrors"),
        (413, "ClientErrors"),
        (429, "ClientErrors"),
        (CLIENT_LEFT, None),
        (500, "ServerErrors"),
        (502, "UpstreamFaults"),
        (504, "UpstreamFaults"),
    ],
)
def test_an_error_counts_as_that_of_whose_it_is(lines: Lines, status: int, metric: str | None) -> None:
    observe(replace(REFUSED, status=status, error="Kind"), DERENDER_SERVICE="stack")
    (document,) = metrics_of(lines)
    whose = {"ClientErrors", "ServerErrors", "UpstreamFaults"}
    assert document.keys() & whose == ({metric} if metric else set())
    assert (document["Error"], document["Errors"]) == ("Kind", 1)


@pytest.mark.parametrize(
    "observation",
    [
        replace(DERENDERED, method="GET", endpoint="/v1/models"),
        replace(DERENDERED, method="GET", endpoint="/health"),
        replace(REFUSED, endpoint=OTHER, status=404),
        replace(REFUSED, method="GET", status=405),
    ],
)
def test_what_does_not_derender_is_not_counted(lines: Lines, observation: Observation) -> None:
    observe(observation, observation, DERENDERED, DERENDER_SERVICE="stack")
    (document,) = metrics_of(lines)
    assert document["ColdStarts"] == 1


@pytest.mark.parametrize(
    ("initialization", "cold_starts"),
    [("on-demand", [1, 0]), ("snap-start", [1, 0]), ("provisioned-concurrency", [0, 0])],
)
def test_a_start_that_somebody_waited_for_is_cold(
    lines: Lines, initialization: str, cold_starts: list[int]
) -> None:
    observe(DERENDERED, DERENDERED, DERENDER_SERVICE="stack", AWS_LAMBDA_INITIALIZATION_TYPE=initialization)
    assert [document.get("ColdStarts", 0) for document in metrics_of(lines)] == cold_starts


def test_metrics_are_sent_at_every_level(lines: Lines) -> None:
    configure_logging("api", {"DERENDER_LOG_LEVEL": "CRITICAL"})
    observe(DERENDERED, DERENDER_SERVICE="stack")
    assert len(lines()) == len(metrics_of(lambda: [{"_aws": {}}])) == 1


@pytest.mark.usefixtures("_configured")
def test_an_observation_that_cannot_be_told_is_nobodys_concern(lines: Lines) -> None:
    tally = Tally(outcomes={"quixotic": 1})  # type: ignore[dict-item]
    observe(replace(DERENDERED, answer=AnswerFacts(tally=tally)), DERENDER_SERVICE="stack")
    *_, line = lines()
    assert "unexpected KeyError" in line["message"]
    assert "quixotic" not in json.dumps(line)


def observe_batch(*tallies: Tally) -> None:
    observer = Observer("batch", {"DERENDER_SERVICE": "stack"})
    for tally in tallies:
        observer.report_lines(tally)


@pytest.mark.usefixtures("_configured")
def test_a_batch(lines: Lines) -> None:
    failed = {"InternalError": 1, "invalid_json_line": 4}
    observe_batch(Tally(requests=1000, failed=failed, prompt_tokens=7000, completion_tokens=5000), Tally())
    line, totals, error, empty = lines()
    assert (line["message"], line["level"], line["requests"]) == ("batch", "INFO", 1000)
    assert line["failed"] == failed
    expected = {"Requests": 1000, "PromptTokens": 7000, "CompletionTokens": 5000, "ColdStarts": 1}
    expected |= {"ClientErrors": 4, "ServerErrors": 1, "Errors": 1}
    assert {name: value for name, value in totals.items() if name != "_aws"} == {
        "Service": "stack",
        "Function": "batch",
        "Error": "InternalError",
        **expected,
    }
    assert (error["Error"], error["Errors"]) == ("invalid_json_line", 4)
    assert "_aws" not in empty


@pytest.mark.usefixtures("_configured")
def test_a_batch_that_cannot_be_told_is_nobodys_concern(lines: Lines) -> None:
    observe_batch(Tally(failed={"kind": "quixotic"}))  # type: ignore[dict-item]
    *_, line = lines()
    assert "unexpected TypeError" in line["message"]
