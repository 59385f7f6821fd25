"""The function answers as its OpenAPI document says, whatever it receives."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import requests
import schemathesis
from requests.adapters import BaseAdapter
from urllib3 import HTTPResponse

from derender.http.app import create_app
from derender.http.sse import EVENT_STREAM
from derender.models.model import Models
from tests.support.api_client import CHAT
from tests.support.functions import started
from tests.support.lambda_emulator import http_event
from tests.support.openapi_fuzzing import FUZZED, JsonSession, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.functions import Function

    Case = schemathesis.Case[Any]

URL = "http://localhost"
DOCUMENT = create_app(Models((), None), max_body_bytes=1).openapi()
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)


class Gateway(BaseAdapter):
    """Passes requests to a function, as an HTTP API does."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        """Send a request."""
        url = urlsplit(request.url)
        content = request.body or b""
        assert isinstance(content, (bytes, str))
        event = http_event(
            str(url.path),
            base64.b64encode(content.encode() if isinstance(content, str) else content).decode(),
            method=str(request.method),
            headers={name.lower(): str(value) for name, value in request.headers.items()},
            base64=True,
        )
        event["rawQueryString"] = url.query
        answer = self._function(event)
        body = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"].encode()
        response = requests.Response()
        response.status_code = int(answer["statusCode"])
        response.headers.update(answer["headers"])
        response.raw = HTTPResponse(
            BytesIO(body), answer["headers"], response.status_code, preload_content=False
        )
        response.request = request
        response.url = str(request.url)
        response.reason = ""
        return response

    def close(self) -> None:
        """Do nothing: there is no connection."""


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with started() as function, JsonSession("application/json", EVENT_STREAM) as session:
        session.mount(URL, Gateway(function))
        yield session


@SCHEMA.parametrize()
@FUZZED
def test_every_answer_is_as_documented(case: Case, session: requests.Session) -> None:
    check(case, session, URL)


def test_the_function_serves_the_document(session: requests.Session) -> None:
    assert session.get(f"{URL}/openapi.json").json() == DOCUMENT


def test_every_operation_is_tried() -> None:
    tried = {(path, method) for path in SCHEMA for method in SCHEMA[path]}
    assert tried == {(path, method) for path, item in DOCUMENT["paths"].items() for method in item}


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/health", "/version", "/v1/models"])
def test_get_routes_answer(session: requests.Session, path: str) -> None:
    assert session.get(URL + path).status_code == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "LOCK"])
def test_unknown_methods_use_the_error_envelope(session: requests.Session, method: str) -> None:
    answer = session.request(method, URL + CHAT)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    if method != "HEAD":
        error = answer.json()["error"]
        assert (error["code"], error["type"]) == (405, "MethodNotAllowedError")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/chat/completions", "/tokenize", "/docs/x", "//health", "/%2e%2e/x"]
)
def test_unknown_paths_use_the_error_envelope(session: requests.Session, method: str, path: str) -> None:
    answer = session.request(method, URL + path)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert (error["code"], error["type"]) == (404, "NotFoundError")
