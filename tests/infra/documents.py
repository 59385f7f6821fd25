"""Reads the parts of a stack that describe an API."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .stack import Stack

__all__ = ["access_log", "permissions", "routes"]


def routes(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield name, route and integration of each route of an API."""
    for path, methods in body["paths"].items():
        for method, route in methods.items():
            yield f"{method} {path}", route, route["x-amazon-apigateway-integration"]


def permissions(made: Stack, function: str | None = None) -> list[dict[str, Any]]:
    """Return the permissions to invoke one function, or any."""
    found = made.of_type("AWS::Lambda::Permission").values()
    return [each for each in found if function in (None, each["FunctionName"])]


def access_log(format_: str) -> dict[str, str]:
    """Return the fields of an access log's format, none of which may hold anything of a request."""
    logged: dict[str, str] = json.loads(format_)
    assert {"request_id", "status", "latency_ms", "integration_error"} <= logged.keys()
    for each in logged.values():
        assert re.fullmatch(r"\$context(\.[A-Za-z]+)+", each)
        assert not re.search(r"body|header|identity|querystring|claims|sourceIp", each, re.IGNORECASE)
    return logged
