"""A client of the application behind the Lambda adapter, and the events that it sends."""

from __future__ import annotations

import asyncio
import atexit
import base64
import gzip
import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from mangum import Mangum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI

__all__ = ["CHAT", "COMPLETIONS", "Answer", "Client", "EventKind", "event", "generated"]

CHAT: Final = "/v1/chat/completions/derender"
COMPLETIONS: Final = "/v1/completions/derender"
EventKind = Literal["http", "rest", "url"]


def event(
    kind: EventKind,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    encoded: bool = True,
) -> dict[str, Any]:
    """Return the event that an HTTP API (`http`), a REST API (`rest`) or a function URL (`url`) sends.

    Args:
        kind: The sender.
        method: The HTTP method.
        path: The path.
        body: The body, if any.
        headers: Headers, besides the content type.
        encoded: Write the body in base64. Otherwise it has to be text.
    """
    given = {"content-type": "application/json", "host": "x.example.com", **(headers or {})}
    text = None if body is None else base64.b64encode(body).decode() if encoded else body.decode()
    shared: dict[str, Any] = {"headers": given, "body": text, "isBase64Encoded": encoded and body is not None}
    if kind == "rest":
        return {
            "resource": "/{proxy+}",
            "path": path,
            "httpMethod": method,
            "multiValueHeaders": {name: [value] for name, value in given.items()},
            "queryStringParameters": None,
            "multiValueQueryStringParameters": None,
            "pathParameters": {"proxy": path.lstrip("/")},
            "stageVariables": None,
            "requestContext": {
                "resourcePath": "/{proxy+}",
                "httpMethod": method,
                "path": f"/prod{path}",
                "stage": "prod",
                "requestId": "0",
                "identity": {"sourceIp": "203.0.113.1"},
            },
            **shared,
        }
    domain = "x.lambda-url.eu-west-1.on.aws" if kind == "url" else "x.execute-api.eu-west-1.amazonaws.com"
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "requestContext": {
            "domainName": domain,
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.1",
                "userAgent": "tests",
            },
            "requestId": "0",
            "routeKey": "$default",
            "stage": "$default",
            "timeEpoch": 0,
        },
        **shared,
    }


class Answer:
    """An HTTP response, its body decoded."""

    def __init__(self, response: Mapping[str, Any]) -> None:
        self.status = int(response["statusCode"])
        single = {name: values[0] for name, values in (response.get("multiValueHeaders") or {}).items()}
        self.headers: dict[str, str] = {**single, **response.get("headers", {})}
        body = response["body"]
        self.body = base64.b64decode(body) if response["isBase64Encoded"] else body.encode()
        if self.headers.get("content-encoding") == "gzip":
            self.body = gzip.decompress(self.body)

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    @property
    def choice(self) -> Any:
        """The first choice."""
        return self.json["choices"][0]

    @property
    def error(self) -> Any:
        """The error, once its envelope is checked."""
        envelope = self.json
        assert set(envelope) == {"error"}
        error = envelope["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == self.status
        assert isinstance(error["message"], str)
        assert error["message"]
        assert isinstance(error["type"], str)
        assert error["param"] is None or isinstance(error["param"], str)
        return error


class Client:
    """Sends requests to an application, as the Lambda adapter does."""

    def __init__(self, app: FastAPI) -> None:
        asyncio.set_event_loop(_event_loop())
        self._handler = Mangum(app, lifespan="off")

    def send(
        self,
        path: str,
        body: bytes | None = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        kind: EventKind = "http",
        encoded: bool = True,
    ) -> Answer:
        """Send bytes."""
        sent = event(kind, method, path, body, headers, encoded=encoded)
        # The adapter runs on the thread's event loop, which other tests change.
        asyncio.set_event_loop(_event_loop())
        return Answer(self._handler(sent, None))  # type: ignore[arg-type]

    def post(self, path: str, body: Any) -> Answer:
        """Send JSON."""
        return self.send(path, json.dumps(body).encode())

    def exchange(self, path: str, body: Any) -> tuple[int, Any]:
        """Send JSON and return the status and the parsed body. Bytes are sent as they are."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.send(path, content)
        return answer.status, answer.json if answer.body else None

    def chat(self, body: Any) -> Answer:
        """Derender a chat completion."""
        return self.post(CHAT, body)

    def completions(self, body: Any) -> Answer:
        """Derender a text completion."""
        return self.post(COMPLETIONS, body)


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


def generated(token_ids: Any, **choice: Any) -> dict[str, Any]:
    """Return a generate response of one choice."""
    return {
        "request_id": "gen-1",
        "choices": [{"index": 0, "token_ids": token_ids, "finish_reason": "stop", **choice}],
    }
