"""Gzip bodies: one member, and never more than the limit."""

from __future__ import annotations

import contextlib
import gzip
import tracemalloc
import zlib
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.errors import InvalidRequest, RequestTooLarge
from derender.protocol.gunzip import gunzip

LIMIT: Final = 64 * 1024


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
def test_anything_but_one_gzip_member_is_refused(data: bytes) -> None:
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
    content = 64 * 1024 * 1024
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join([*(compressor.compress(bytes(1024 * 1024)) for _ in range(64)), compressor.flush()])
    assert len(data) < content / 900
    tracemalloc.start()
    try:
        with pytest.raises(RequestTooLarge):
            gunzip(data, LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * LIMIT + 2 * len(data)
