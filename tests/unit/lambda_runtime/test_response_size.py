"""The size of a response is that of what Lambda's runtime writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lambda_runtime.response_size import MAX_RESPONSE, excess_size, response_size, writes_ascii
from tests.support.lambda_responses import ESCAPED, UNESCAPED, make_response, written

characters = st.sampled_from('a/é∞😀"\\\b\t\n\f\r\x00\x1f\x7f\x80\u2028\u2029\ud7ff\uffff') | st.characters(
    codec="utf-8"
)
both_runtimes = pytest.mark.parametrize("runtime", [ESCAPED, UNESCAPED])


def find_excess(response: dict[str, Any], runtime: str) -> int | None:
    return excess_size(response, ascii_only=writes_ascii({"AWS_EXECUTION_ENV": runtime}))


@settings(deadline=None)
@given(body=st.text(characters), headers=st.dictionaries(st.text(), st.text()))
@both_runtimes
def test_the_size_is_what_the_runtime_writes(runtime: str, body: str, headers: dict[str, str]) -> None:
    response = make_response(body, headers=headers, cookies=[body])
    ascii_only = writes_ascii({"AWS_EXECUTION_ENV": runtime})
    assert response_size(response, ascii_only=ascii_only) == len(written(response, runtime))


@pytest.mark.parametrize("runtime", ["AWS_Lambda_python3.9", ESCAPED, UNESCAPED, "AWS_Lambda_python3.15", ""])
def test_runtimes_that_write_ascii_are_known(runtime: str) -> None:
    assert written({"é": 1}, runtime).isascii() is writes_ascii({"AWS_EXECUTION_ENV": runtime})


def test_an_unknown_runtime_may_write_ascii() -> None:
    assert writes_ascii({})
    assert writes_ascii({"AWS_EXECUTION_ENV": "AWS_Lambda_python3.99"})


def fill(character: str, runtime: str, size: int) -> str:
    """Return a body of one character, and of a few others, with which a response has a size."""
    # All content lengths have seven digits.
    empty = len(written(make_response("", headers=make_response("a" * 1_000_000)["headers"]), runtime))
    once = len(written(make_response(character * 1000), runtime)) - len(
        written(make_response("a" * 1000), runtime)
    )
    count, rest = divmod(size - empty, once // 1000 + 1)
    return character * count + "a" * rest


@both_runtimes
@pytest.mark.parametrize("character", ["a", '"', "\\", "\n", "\x00", "\x7f", "é", "∞", "😀"], ids=ascii)
def test_the_limit_is_exact(character: str, runtime: str) -> None:
    body = fill(character, runtime, MAX_RESPONSE)
    assert len(written(make_response(body), runtime)) == MAX_RESPONSE
    assert find_excess(make_response(body), runtime) is None
    assert find_excess(make_response(body + "a"), runtime) == MAX_RESPONSE + 1


def test_a_small_response_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("lambda_runtime.response_size.response_size")
    small = make_response("\N{GRINNING FACE}" * 256 * 1024)
    assert find_excess(small, ESCAPED) is None
    assert len(written(small, ESCAPED)) < MAX_RESPONSE
