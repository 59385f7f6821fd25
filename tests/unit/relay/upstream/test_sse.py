"""Reading server-sent events: every way to write a line end, split anywhere, within a bound."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender.errors import BadGateway
from derender.relay.upstream.sse import EventDecoder

STREAMS: Final[dict[str, tuple[str, list[str]]]] = {
    "nothing": ("", []),
    "events": ("data: 1\n\ndata: 2\n\n", ["1", "2"]),
    "carriage returns and line feeds": ("data: 1\r\n\r\ndata: 2\r\n\r\n", ["1", "2"]),
    "carriage returns": ("data: 1\r\rdata: 2\r\r", ["1", "2"]),
    "mixed line ends": ("data: 1\r\n\ndata: 2\r\r\ndata: 3\n\r", ["1", "2", "3"]),
    "several lines": ("data: a\ndata: b\r\ndata\ndata:\ndata: c\n\n", ["a\nb\n\n\nc"]),
    "one space is no data": ("data:a\n\ndata:  b \n\n", ["a", " b "]),
    "colons": ("data: {a: b}\n\n", ["{a: b}"]),
    "comments": (": ping\n\n:\n\n: data: x\ndata: 1\n: between\n\n", ["1"]),
    "other fields": ("event: e\nid: 1\nretry: 5\ndatas: x\n data: y\nfield\ndata: 1\n\nevent: e\n\n", ["1"]),
    "characters of several bytes": ("data: é∞😀\n\ndata: 函\r\n\r\n", ["é∞😀", "函"]),
    "other line separators": ("data: a\u2028b\u0085c\x0bd\n\n", ["a\u2028b\u0085c\x0bd"]),
    "byte order mark": ("\ufeffdata: 1\n\ndata: \ufeff\n\n", ["1", "\ufeff"]),
    "empty lines": ("\n\n\r\n\r\n\rdata: 1\n\n\n\n\n", ["1"]),
    "an event that is cut": ("data: 1\n\ndata: 2\n", ["1"]),
    "a line that is cut": ("data: 1\n\ndata: 2", ["1"]),
}


def read(*parts: bytes, limit: int = 1000) -> list[str]:
    decoder = EventDecoder(limit)
    return [data.decode() for part in parts for data in decoder.decode(part)]


@pytest.mark.parametrize(("text", "expected"), STREAMS.values(), ids=STREAMS)
def test_an_event_is_the_same_wherever_the_stream_is_split(text: str, expected: list[str]) -> None:
    content = text.encode()
    assert read(content) == expected
    assert read(*(content[at : at + 1] for at in range(len(content)))) == expected
    for first in range(len(content) + 1):
        assert read(content[:first], content[first:]) == expected
        for second in range(first, len(content) + 1, 3):
            assert read(content[:first], content[first:second], b"", content[second:]) == expected


@given(
    st.lists(st.sampled_from(["data", ":", "x", " ", "\r", "\n", "\r\n", "é"]), max_size=30).map("".join),
    st.lists(st.integers(0, 60), max_size=5),
)
@settings(deadline=None, max_examples=300)
def test_any_stream_is_read_by_lines(text: str, cuts: list[int]) -> None:
    content = text.encode()
    places = [0, *sorted(cuts), len(content)]
    parts = [content[begin:end] for begin, end in pairwise(places)]
    assert read(*parts) == _by_lines(text)


def _by_lines(text: str) -> list[str]:
    """The standard's way: all lines first."""
    *lines, _ = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    events: list[str] = []
    data: list[str] = []
    for line in lines:
        name, _, value = line.partition(":")
        if not line and data:
            events.append("\n".join(data))
            data = []
        elif name == "data":
            data.append(value.removeprefix(" "))
    return events


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_an_event_is_there_as_soon_as_its_line_ends(end: str) -> None:
    decoder = EventDecoder(100)
    assert list(decoder.decode(b"data: 1" + end.encode())) == []
    assert list(decoder.decode(end[0].encode())) == [b"1"]
    assert list(decoder.decode(b"\ndata: 2\n\n")) == [b"2"]


@pytest.mark.parametrize(
    "content",
    [b"data: " + b"x" * 100, b"data: xxxxxxxx\n" * 10, b": " + b"x" * 100, b"event: xxxxxxx\n" * 10],
    ids=["a line", "lines", "a comment", "fields"],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_larger_event_is_a_fault(content: bytes, size: int) -> None:
    parts = [content[begin : begin + size] for begin in range(0, len(content), size)]
    with pytest.raises(BadGateway, match="larger than 64 bytes"):
        read(*parts, limit=64)


def test_the_bound_is_of_one_event_and_not_of_the_stream() -> None:
    content = b"data: " + b"x" * 50 + b"\n\n: a comment of some length, which is no part of any event\n"
    decoder = EventDecoder(64)
    assert [len(data) for _ in range(20) for data in decoder.decode(content)] == [50] * 20
