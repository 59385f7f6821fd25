"""The Lambda Web Adapter: headers that describe the invocation, and the port."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Final

import pytest

from derender.settings import SettingsError
from lambda_runtime.web_adapter import WebAdapter, read_port

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Message, Receive, Scope, Send

    from tests.support.log_lines import LogLines

TRACE: Final = "1-5759e988-bd862e3fe1be46a994272793"


def ask(headers: Mapping[str, str], kind: str = "http") -> None:
    """Send a request through the adapter to an application that writes a line."""

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        logging.getLogger("derender").error("x")

    async def receive() -> Message:
        raise AssertionError

    async def send(_: Message) -> None:
        raise AssertionError

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(WebAdapter(app)({"type": kind, "headers": raw}, receive, send))


def test_lines_carry_the_ids_in_the_headers(log_lines: LogLines) -> None:
    ask(
        {
            "x-amzn-request-context": json.dumps({"requestId": "gateway-1", "authorizer": {"key": "quixotic"}}),
            "x-amzn-lambda-context": json.dumps({"request_id": "invoked-1", "deadline": 1}),
            "x-amzn-trace-id": f"Root={TRACE};Sampled=1",
        }
    )
    (line,) = log_lines()
    assert (line["request_id"], line["function_request_id"]) == ("gateway-1", "invoked-1")
    assert line["xray_trace_id"] == TRACE
    assert "quixotic" not in json.dumps(line)


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
def test_odd_headers_are_ignored(log_lines: LogLines, headers: dict[str, str]) -> None:
    ask(headers)
    (line,) = log_lines()
    assert line.keys() == {"level", "message", "timestamp", "service", "function"}


def test_other_scopes_pass(log_lines: LogLines) -> None:
    ask({"x-amzn-lambda-context": json.dumps({"request_id": "invoked-1"})}, "lifespan")
    (line,) = log_lines()
    assert "function_request_id" not in line


@pytest.mark.parametrize(
    ("environment", "port"),
    [
        ({}, 8080),
        ({"PORT": "1"}, 1),
        ({"PORT": "1", "AWS_LWA_PORT": "65535"}, 65535),
        ({"PORT": "", "AWS_LWA_PORT": ""}, 8080),
    ],
)
def test_the_port_is_a_variable(environment: dict[str, str], port: int) -> None:
    assert read_port(environment) == port


@pytest.mark.parametrize("text", ["0", "65536", "x", "-1", "8.5", "٨"])
@pytest.mark.parametrize("name", ["PORT", "AWS_LWA_PORT"])
def test_a_port_is_a_number_up_to_65535(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{name} must be a port from 1 to 65535, got "):
        read_port({name: text})
