"""Log lines: JSON with a level, and nothing that a client or a model wrote."""

from __future__ import annotations

import asyncio
import json
import logging
import warnings
from typing import TYPE_CHECKING, Final

import pytest

from derender.settings import SettingsError
from derender.telemetry.log_lines import INVOCATION, MAX_FIELD, configure_logging
from derender.telemetry.request_ids import REQUEST_ID

if TYPE_CHECKING:
    from tests.support.log_lines import LogLines

logger: Final = logging.getLogger("derender")


def test_a_line_is_json(log_lines: LogLines) -> None:
    logger.error("no %s", "luck")
    (line,) = log_lines()
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
def test_the_level_is_a_setting(log_lines: LogLines, setting: str, written: list[str]) -> None:
    configure_logging("api", {"DERENDER_LOG_LEVEL": setting})
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logger.log(level, "x")
    assert [line["level"] for line in log_lines()] == written


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(SettingsError) as raised:
        configure_logging("api", {"DERENDER_LOG_LEVEL": "loud"})
    assert str(raised.value) == (
        "DERENDER_LOG_LEVEL must be DEBUG, INFO, WARNING, ERROR or CRITICAL, got 'loud'"
    )


@pytest.mark.parametrize("name", ["mangum.http", "httpx", "uvicorn.error", "asyncio"])
def test_other_loggers_write_the_first_line_of_warnings_and_errors(log_lines: LogLines, name: str) -> None:
    other = logging.getLogger(name)
    other.info("POST /quixotic?key=quixotic")
    other.error("it failed\nfuture: <Task exception=ValueError('quixotic')>")
    (line,) = log_lines()
    assert (line["message"], line["logger"]) == ("it failed", name)


@pytest.mark.parametrize("name", ["derender", "uvicorn.error"])
def test_an_exception_is_logged_without_its_message(log_lines: LogLines, name: str) -> None:
    error = ValueError("quixotic")
    error.add_note("marmalade")
    try:
        raise error
    except ValueError:
        logging.getLogger(name).exception("it failed")
    (line,) = log_lines()
    assert line["exception_name"] == "ValueError"
    assert "test_log_lines.py" in line["exception"]
    assert not any(word in json.dumps(line) for word in ("quixotic", "marmalade"))


@pytest.mark.parametrize("name", ["derender", "uvicorn.error"])
def test_a_field_is_bounded(log_lines: LogLines, name: str) -> None:
    logging.getLogger(name).error("é" * 100_000, extra={"model": "m" * 100_000})
    (line,) = log_lines()
    assert line["message"] == "é" * MAX_FIELD + "…"
    assert line["model"] == "m" * MAX_FIELD + "…"


def test_a_warning_is_logged_without_its_message(log_lines: LogLines) -> None:
    warnings.filterwarnings("always")
    warnings.warn("quixotic", UserWarning, stacklevel=1)
    (line,) = log_lines()
    assert line["message"].startswith("UserWarning at ")
    assert line["level"] == "WARNING"
    assert "quixotic" not in json.dumps(line)


def test_a_record_that_cannot_be_formatted_is_dropped(log_lines: LogLines) -> None:
    logger.error("%d", "quixotic")
    assert log_lines() == []


def test_a_message_that_looks_like_json_stays_a_message(log_lines: LogLines) -> None:
    logger.error('{"level": "INFO"}')
    (line,) = log_lines()
    assert (line["level"], line["message"]) == ("ERROR", '{"level": "INFO"}')


def test_handlers_of_the_runtime_are_replaced(log_lines: LogLines) -> None:
    logging.getLogger().addHandler(logging.StreamHandler())
    for _ in range(2):
        configure_logging("api", {})
    logger.error("once")
    assert len(log_lines()) == 1


def test_lines_carry_the_id_of_their_request(log_lines: LogLines) -> None:
    async def request(name: str) -> None:
        REQUEST_ID.set(name)
        for _ in range(3):
            await asyncio.sleep(0)
            logger.error("x")

    async def requests() -> None:
        await asyncio.gather(request("a"), request("b"))

    asyncio.run(requests())
    assert [line["request_id"] for line in log_lines()] == ["a", "b"] * 3


def test_lines_carry_the_fields_of_their_invocation(log_lines: LogLines) -> None:
    INVOCATION.set({"function_request_id": "invoked-1"})
    logger.error("x")
    (line,) = log_lines()
    assert line["function_request_id"] == "invoked-1"
    assert "request_id" not in line
