"""Log lines under the real runtime."""

from __future__ import annotations

import json

import pytest

from tests.support.api_client import CHAT
from tests.support.lambda_emulator import Runtime, http_event
from tests.support.qwen3_outputs import generated


def test_an_unknown_level_ends_the_start_with_one_line() -> None:
    with Runtime(environment={"DERENDER_LOG_LEVEL": "loud"}) as function:
        with pytest.raises(RuntimeError, match="did not answer"):
            function.invoke(http_event(CHAT, "{}"))
        logs = function.logs
    assert logs.count("derender: DERENDER_LOG_LEVEL must be DEBUG, INFO,") == 1
    assert "Traceback" not in logs


@pytest.mark.parametrize("log_format", ["JSON", "Text"])
def test_each_line_is_written_once(log_format: str) -> None:
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
