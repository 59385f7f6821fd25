"""Request bodies: compressed or not, and never more than the limit."""

from __future__ import annotations

import contextlib
import gzip
import json
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.errors import InvalidRequest, RequestTooLarge
from derender.protocol.gunzip import gunzip
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


def gunzipped(data: bytes, limit: int = 1000) -> bytes:
    return gunzip(data, limit)


@given(content=st.binary(max_size=200), level=st.integers(0, 9))
def test_one_gzip_member_is_decompressed(content: bytes, level: int) -> None:
    assert gunzipped(gzip.compress(content, level)) == content


@given(content=st.binary(max_size=60), cut=st.integers(0, 200))
def test_a_gzip_body_cut_anywhere_is_refused(content: bytes, cut: int) -> None:
    data = gzip.compress(content)
    with pytest.raises(InvalidRequest):
        gunzipped(data[: cut % len(data)])


@given(content=st.binary(min_size=1, max_size=60), place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_or_harmless(content: bytes, place: int, bit: int) -> None:
    data = bytearray(gzip.compress(content))
    data[place % len(data)] ^= 1 << bit
    with contextlib.suppress(InvalidRequest, RequestTooLarge):
        assert gunzipped(bytes(data)) == content


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"a": 1}', id="JSON"),
        pytest.param(zlib.compress(b"{}"), id="zlib"),
        pytest.param(gzip.compress(b"{}") + gzip.compress(b"{}"), id="two members"),
        pytest.param(gzip.compress(b"{}") + b"\0", id="something after it"),
        pytest.param(gzip.compress(b"{}")[:-8] + bytes(8), id="a wrong checksum"),
        pytest.param(b"\x1f\x8b", id="the magic alone"),
    ],
)
def test_what_is_no_single_gzip_member_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest) as error:
        gunzipped(data)
    assert error.value.param == "body"


@pytest.mark.parametrize(
    ("size", "accepted"), [(0, True), (999, True), (1000, True), (1001, False), (10**6, False)]
)
def test_content_is_accepted_up_to_the_limit(size: int, accepted: bool) -> None:
    data = gzip.compress(b"a" * size)
    if accepted:
        assert len(gunzipped(data)) == size
    else:
        with pytest.raises(RequestTooLarge, match="1000 bytes"):
            gunzipped(data)


def test_a_gzip_bomb_is_refused_without_producing_it() -> None:
    content = 200 * 1024 * 1024
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join([*(compressor.compress(bytes(1024 * 1024)) for _ in range(200)), compressor.flush()])
    assert len(data) < content / 900
    tracemalloc.start()
    try:
        with pytest.raises(RequestTooLarge):
            gunzip(data, LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * LIMIT + 2 * len(data)


# --- through the function -------------------------------------------------------------------------------------


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


def test_long_answers_are_compressed_where_the_client_accepts_it(client: Client) -> None:
    token_ids = [int(B.HELLO)] * 60
    content = [
        {"token_id": n, "logprob": -0.5, "top_logprobs": [{"token_id": n, "logprob": -0.5}] * 5}
        for n in token_ids
    ]
    body = json.dumps({"generate_response": generated(token_ids, logprobs={"content": content})}).encode()
    plain = client.send(CHAT, body)
    packed = client.send(CHAT, body, headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert plain.choice == packed.choice
    assert len(plain.body) > 16 * 1024
