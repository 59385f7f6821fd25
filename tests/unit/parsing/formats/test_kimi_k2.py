"""Calls of Kimi K2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from derender.parsing import CallStart, EarlierCalls, call_id, load_parsers
from derender.parsing.engine.format import Ids
from tests.support.engine import parse_chunks
from tests.support.parsers import Message, request_parser

from ..support import PARIS, TIME, TOOLS, check, check_both, marked_parsers, to_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.vocabulary import Vocabulary


def kimi(name: str, arguments: str, number: int = 0) -> str:
    return (
        f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
    )


def section(*calls: str) -> str:
    return f"<|tool_calls_section_begin|>{''.join(calls)}<|tool_calls_section_end|>"


KIMI: Final = [
    pytest.param(section(kimi(*PARIS)), Message(calls=[PARIS]), id="a call"),
    pytest.param(section(kimi(*PARIS), kimi(*TIME, 1)), Message(calls=[PARIS, TIME]), id="two"),
    pytest.param(f"Hi{section(kimi(*PARIS))}Bye", Message("HiBye", "", [PARIS]), id="in text"),
    pytest.param(
        f"<think>hm</think>Hi{section(kimi(*PARIS))}", Message("Hi", "hm", [PARIS]), id="after reasoning"
    ),
    pytest.param(f"<think>hm{section(kimi(*PARIS))}", Message("", "hm", [PARIS]), id="in reasoning"),
    pytest.param(section(kimi(*PARIS).replace("functions.", "")), Message(calls=[PARIS]), id="a name alone"),
    pytest.param(section(), Message(), id="no call"),
]
KIMI_THAT_MISSES: Final = [
    pytest.param(section(kimi(*PARIS))[:-26], Message(calls=[PARIS]), id="the section's end"),
    pytest.param(section(kimi(*PARIS)[:-17]), Message(calls=[PARIS]), id="the call's end"),
    pytest.param(
        section(kimi(*PARIS)[:-17], kimi(*TIME)), Message(calls=[PARIS, TIME]), id="the first call's end"
    ),
    pytest.param(section(kimi(*PARIS))[:-43], Message(calls=[PARIS]), id="both ends"),
    pytest.param(kimi(*PARIS), Message(calls=[PARIS]), id="the section"),
]


@pytest.mark.parametrize(("output", "expected"), KIMI)
def test_calls_are_parsed(output: str, expected: Message) -> None:
    check_both(marked_parsers("kimi_k2", "qwen3"), output, expected)


@pytest.mark.parametrize(("output", "expected"), KIMI_THAT_MISSES)
def test_missing_ends_are_tolerated(output: str, expected: Message) -> None:
    check(marked_parsers("kimi_k2", "qwen3"), output, expected)


@pytest.mark.parametrize(("output", "expected"), KIMI + KIMI_THAT_MISSES)
def test_markers_are_matched_as_text_if_the_vocabulary_lacks_them(
    bundled: Vocabulary, output: str, expected: Message
) -> None:
    parsers = load_parsers(bundled, "kimi_k2", "qwen3")
    assert parsers is not None
    check(parsers, output, expected)


def test_calls_carry_the_numbers_that_the_model_wrote() -> None:
    parser = request_parser(marked_parsers("kimi_k2"), tools=TOOLS, whole_calls=True)
    events = parse_chunks(parser, [to_pieces(parser, section(kimi(*PARIS, 4), kimi(*TIME, 12)))])
    assert [event.written_id for event in events if isinstance(event, CallStart)] == ["4", "12"]


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        ((4, 12), [4, 12]),
        ((1, 1), [1, 2]),
        ((1, None, 2), [1, 2, 3]),
        ((None, 0, 1), [0, 1, 2]),
        ((5, 0, 9, 6), [5, 6, 9, 10]),
    ],
)
@pytest.mark.parametrize("whole_calls", [True, False])
def test_numbers_of_calls_ascend(
    written: Sequence[int | None], numbers: Sequence[int], *, whole_calls: bool
) -> None:
    parser = request_parser(marked_parsers("kimi_k2"), tools=TOOLS, whole_calls=whole_calls)
    calls = [kimi(*TIME, number) if number is not None else kimi(*TIME).replace(":0", "") for number in written]
    chunks = [[piece] for piece in to_pieces(parser, section(*calls))]
    made = [
        call_id(Ids.KIMI, event, seed=b"", choice=0, earlier=EarlierCalls())
        for event in parse_chunks(parser, chunks)
        if isinstance(event, CallStart)
    ]
    assert made == [f"functions.get_time:{number}" for number in numbers]


def test_arguments_may_be_missing() -> None:
    check_both(marked_parsers("kimi_k2"), section(kimi("get_time", "")), Message(calls=[TIME]))


def test_a_call_may_lack_its_number() -> None:
    check_both(marked_parsers("kimi_k2"), section(kimi(*TIME).replace(":0", "")), Message(calls=[TIME]))


def test_a_section_without_calls_is_text() -> None:
    check(marked_parsers("kimi_k2"), section("oops"), Message(section("oops")))


def test_text_before_the_first_call_is_left_out() -> None:
    parsers, paris = marked_parsers("kimi_k2"), kimi(*PARIS)
    check_both(parsers, f"Hi{section('noise ', paris)}", Message("Hi", "", [PARIS]))
    broken = section("noise ", paris.replace("}", "]")).removesuffix("<|tool_calls_section_end|>")
    check(parsers, broken + kimi(*TIME), Message(broken, "", [TIME]))


def test_reasoning_goes_on_after_a_refused_call() -> None:
    refused = f"hm {section(kimi(*PARIS).replace('}', ']'))} so"
    check_both(marked_parsers("kimi_k2", "kimi_k2"), f"{refused}</think>Hi", Message("Hi", refused))


def test_markers_quoted_in_reasoning_are_reasoning() -> None:
    quoted = "use <|tool_calls_section_begin|> then"
    check_both(marked_parsers("kimi_k2", "kimi_k2"), f"{quoted}</think>Hi", Message("Hi", quoted))
