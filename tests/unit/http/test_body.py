"""Request bodies: compressed or not, and never more than the limit."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from tests.support.api_client import CHAT, COMPLETIONS, generated
from tests.support.vocabularies import B

if TYPE_CHECKING:
    from tests.support.api_client import Client

LIMIT = 64 * 1024
"""Of the client."""
GZIP = {"content-encoding": "gzip"}


def request_of(size: int) -> bytes:
    """A valid request of exactly so many bytes."""
    body = json.dumps({"generate_response": generated([int(B.HELLO)]), "padding": ""}).encode()
    return body[:-2] + b"x" * (size - len(body)) + body[-2:]


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", " gzip ", "x-gzip"])
def test_gzip_requests_are_answered(client: Client, encoding: str) -> None:
    answer = client.send(CHAT, gzip.compress(request_of(500)), headers={"content-encoding": encoding})
    assert answer.status == 200
    assert answer.choice["message"]["content"] == "Hello"


@pytest.mark.parametrize("encoding", ["identity", ""])
def test_requests_that_say_they_are_plain_are_answered(client: Client, encoding: str) -> None:
    assert client.send(CHAT, request_of(500), headers={"content-encoding": encoding}).status == 200


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip", "gzip, br", "unknown"])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_other_encodings_are_unsupported(client: Client, path: str, encoding: str) -> None:
    answer = client.send(path, gzip.compress(b"{}"), headers={"content-encoding": encoding})
    assert answer.status == 415
    assert answer.error["type"] == "UnsupportedMediaTypeError"
    assert "gzip" in answer.error["message"]


def test_an_encoding_is_shown_in_short(client: Client) -> None:
    answer = client.send(CHAT, b"{}", headers={"content-encoding": "x" * 60_000})
    assert answer.status == 415
    assert len(answer.error["message"]) < 200


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="JSON"),
        pytest.param(gzip.compress(request_of(500))[:-1], id="cut by a byte"),
        pytest.param(gzip.compress(request_of(500))[:20], id="cut to its beginning"),
        pytest.param(gzip.compress(request_of(500)) + b"more", id="something after it"),
        pytest.param(gzip.compress(b"{"), id="bad JSON within"),
    ],
)
def test_bad_gzip_is_a_bad_request(client: Client, body: bytes) -> None:
    answer = client.send(CHAT, body, headers=GZIP)
    assert answer.status == 400
    assert answer.error["param"] == "body"


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("size", "status"), [(LIMIT - 1, 200), (LIMIT, 200), (LIMIT + 1, 413), (4 * LIMIT, 413)]
)
def test_bodies_are_accepted_up_to_the_limit(client: Client, compressed: bool, size: int, status: int) -> None:
    body = request_of(size)
    assert len(body) == size
    answer = client.send(CHAT, gzip.compress(body), headers=GZIP) if compressed else client.send(CHAT, body)
    assert answer.status == status
    if status == 413:
        assert answer.error["type"] == "RequestTooLargeError"
        assert answer.error["param"] == "body"
        assert str(LIMIT) in answer.error["message"]
        assert "DERENDER_MAX_BODY_BYTES" in answer.error["message"]
