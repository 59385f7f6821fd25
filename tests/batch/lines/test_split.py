"""Splitting byte ranges into lines."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derender.batch.lines import split
from derender.batch.lines.split import Line

read_sizes = st.integers(1, 30)
"""Bytes that are read at a time."""


def read_in_ranges(content: bytes, step: int, read_bytes: int, max_bytes: int = 1 << 30) -> list[Line]:
    """Read a file in ranges of some bytes, and return the lines of all ranges."""

    def read(begin: int, end: int) -> bytes:
        return content[begin:end]

    size = len(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "READ_BYTES", read_bytes)
        patch.setattr(split, "FIRST_READ_BEYOND", min(2, read_bytes))
        return [
            line
            for start in range(0, size, step)
            for line in split.read_lines(read, start, min(start + step, size), size, max_bytes)
        ]


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r\n"]), max_size=40), st.integers(1, 90), read_sizes)
def test_ranges_have_each_line_once(parts: list[bytes], step: int, read_bytes: int) -> None:
    content = b"".join(parts)
    expected, offset = [], 0
    for each in content.split(b"\n"):
        end = min(offset + len(each) + 1, len(content))
        if offset < len(content):
            expected.append(Line(offset, end, each))
        offset = end
    assert read_in_ranges(content, step, read_bytes) == expected


@settings(deadline=None)
@given(st.lists(st.integers(0, 12), max_size=12), st.integers(1, 40), read_sizes, st.integers(0, 12))
def test_a_line_over_the_limit_is_skipped(
    lengths: list[int], step: int, read_bytes: int, max_bytes: int
) -> None:
    content = b"".join(b"x" * length + b"\n" for length in lengths)
    found = [line.content for line in read_in_ranges(content, step, read_bytes, max_bytes)]
    assert found == [b"x" * length if length <= max_bytes else None for length in lengths]


@settings(deadline=None)
@given(st.integers(1, 12), read_sizes)
def test_the_byte_order_mark_of_a_file_is_skipped(step: int, read_bytes: int) -> None:
    mark = b"\xef\xbb\xbf"
    lines = read_in_ranges(mark + b"a\n" + mark + b"b", step, read_bytes)
    assert lines == [Line(0, 5, b"a"), Line(5, 9, mark + b"b")]
    assert read_in_ranges(mark, step, read_bytes) == [Line(0, 3, b"")]
    assert read_in_ranges(mark[:2] + b"\n", step, read_bytes) == [Line(0, 3, mark[:2])]


class Endless:
    """A file of one line of a gigabyte, which counts the bytes that are read."""

    SIZE = 1 << 30

    def __init__(self) -> None:
        self.bytes_read = 0
        self._zeros = bytes(8 << 20)

    def read(self, start: int, end: int) -> bytes:
        self.bytes_read += end - start
        return self._zeros[: end - start]


def test_a_line_over_the_limit_is_not_kept_in_memory() -> None:
    file = Endless()
    tracemalloc.start()
    found = list(split.read_lines(file.read, 0, 1 << 20, file.SIZE, 1000))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [Line(0, file.SIZE, None)]
    assert file.bytes_read == file.SIZE
    assert most < 40 << 20


def test_a_line_that_spans_a_whole_range_is_not_read_to_its_end() -> None:
    file = Endless()
    assert list(split.read_lines(file.read, 1 << 20, 2 << 20, file.SIZE, 1000)) == []
    assert file.bytes_read == (1 << 20) + 1
