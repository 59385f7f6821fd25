"""Unexpected exceptions are logged without their message, and become internal errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from derender.errors import BadRequest, InternalError
from derender.telemetry.faults import client_error, log_unexpected

if TYPE_CHECKING:
    from tests.support.log_lines import LogLines


def test_an_error_of_derender_stays(log_lines: LogLines) -> None:
    error = BadRequest("no")
    assert client_error(error) is error
    assert log_lines() == []


def test_another_exception_becomes_an_internal_error(log_lines: LogLines) -> None:
    def fail() -> None:
        raise ValueError("quixotic")

    try:
        fail()
    except ValueError as caught:
        errors = [client_error(caught), log_unexpected(caught)]
    assert [(type(error), error.message) for error in errors] == [(InternalError, "internal error")] * 2
    for line in log_lines():
        assert line["message"].startswith("unexpected ValueError\n")
        assert "test_faults.py" in line["message"]
        assert "quixotic" not in line["message"].replace('raise ValueError("quixotic")', "")


def test_an_exception_from_deep_inside_is_logged_in_short(log_lines: LogLines) -> None:
    def recurse() -> None:
        recurse()

    try:
        recurse()
    except RecursionError as caught:
        log_unexpected(caught)
    (line,) = log_lines()
    assert re.search(r"test_faults.py(?s:.)*… \d{2,4} more\n(?s:.)*recurse", line["message"])
    assert len(line["message"]) < 5_000
