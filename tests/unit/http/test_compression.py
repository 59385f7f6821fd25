"""Responses compressed for clients that accept gzip."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from derender.http.compression import MIN_GZIP_BYTES, CompressionMiddleware, accepts_gzip
from tests.support.api_client import CHAT, generated
from tests.support.vocabularies import B

from .asgi import Scripted, call

if TYPE_CHECKING:
    from tests.support.api_client import Client

ACCEPTING: Final = [
    "gzip",
    "GZIP",
    "gzip, deflate, br, zstd",
    "br, gzip",
    "br;q=1.0, gzip;q=0.5",
    "gzip; q=0.001",
    "x-gzip",
    "*",
    "identity;q=0.1, *",
]
REFUSING: Final = [
    "",
    "identity",
    "br",
    "deflate, br",
    "gzip;q=0",
    "gzip;q=0.000, *",
    "gzip ; q=0, br",
    "*;q=0",
    "gzipped",
]


@pytest.mark.parametrize(
    ("header", "accepted"), [*((each, True) for each in ACCEPTING), *((each, False) for each in REFUSING)]
)
def test_a_long_answer_is_compressed_if_the_client_accepts_it(
    client: Client, header: str, accepted: bool
) -> None:
    assert accepts_gzip(header) is accepted
    token_ids = [int(B.HELLO)] * 60
    content = [
        {"token_id": n, "logprob": -0.5, "top_logprobs": [{"token_id": n, "logprob": -0.5}] * 5}
        for n in token_ids
    ]
    body = json.dumps({"generate_response": generated(token_ids, logprobs={"content": content})}).encode()
    answer = client.send(CHAT, body, headers={"accept-encoding": header})
    assert answer.status == 200
    assert answer.headers.get("content-encoding") == ("gzip" if accepted else None)
    assert len(answer.body) > MIN_GZIP_BYTES
    assert len(answer.choice["logprobs"]["content"]) == len(token_ids)


def test_a_short_answer_is_not_compressed(client: Client) -> None:
    answer = client.send("/version", method="GET", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in answer.headers


def test_other_scopes_pass() -> None:
    app = Scripted()
    call(CompressionMiddleware(app), {"type": "lifespan"})
    assert app.scope == {"type": "lifespan"}
