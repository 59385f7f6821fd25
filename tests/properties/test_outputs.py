"""Messages that are written as their family writes them are parsed: whole, in pieces, and truncated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.parsing import ReasoningTokens
from tests.conformance.vocabularies import vocabulary
from tests.support.engine import Stream, parse_ids
from tests.support.parsers import Message, fold, request_parser

from .encoding import ids_of, prompt_ids, read_calls, split
from .examples import tried
from .outputs import FAMILIES, Family, outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.parsing import Event, Parser

    from .outputs import Output

WIDTHS: Final = st.sampled_from((1, 2, 3, 12))
"""Widest token that an output is encoded with, in bytes."""
families = pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])


def parsed(
    family: Family, output: Output, chunks: Sequence[Sequence[int]], *, whole_calls: bool, parallel: bool = True
) -> list[Event]:
    return parse_ids(
        vocabulary(family.vocabulary),
        parser_of(family, output, whole_calls=whole_calls, parallel=parallel),
        chunks,
        prompt=prompt_ids(family, output.prompt),
    )


def parser_of(family: Family, output: Output, *, whole_calls: bool, parallel: bool = True) -> Parser:
    return request_parser(
        family.parsers(), **output.request, whole_calls=whole_calls, parallel_tool_calls=parallel
    )


@families
@tried(6)
@given(data=st.data())
def test_a_message_is_parsed(family: Family, data: st.DataObject) -> None:
    output = data.draw(outputs(family))
    parallel = data.draw(st.booleans())
    ids = ids_of(family, output, data.draw(WIDTHS))
    chunks = split(ids, data.draw(st.lists(st.integers(0, 12), max_size=20)))
    calls = output.calls if parallel else output.calls[:1]
    for whole_calls in (True, False):
        result = fold(parsed(family, output, chunks, whole_calls=whole_calls, parallel=parallel))
        assert read_calls(result) == [(call.name, call.arguments) for call in calls]
        # White space before a call is content if the answer goes on.
        assert "".join(result.content.split()) == "".join(output.content.split())
        assert result.reasoning == output.reasoning


@families
@tried(4)
@given(data=st.data())
def test_tokens_of_the_reasoning_are_counted(family: Family, data: st.DataObject) -> None:
    output = data.draw(outputs(family))
    ids = ids_of(family, output, 1)
    chunks = split(ids, data.draw(st.lists(st.integers(0, 12), max_size=20)))
    events = parsed(family, output, chunks, whole_calls=True)
    counted = sum(event.count for event in events if isinstance(event, ReasoningTokens))
    # Each byte is a token, and so is each marker. White space next to a marker may count, too.
    reasoning = fold(events).reasoning
    for marker in family.markers():
        reasoning = reasoning.replace(marker, "m")
    least = len("".join(reasoning.split()).encode())
    assert least <= counted <= least + sum(map(output.text.count, " \t\r\n"))


@families
@tried(4)
@given(data=st.data())
def test_a_truncated_output_has_only_complete_calls(family: Family, data: st.DataObject) -> None:
    output = data.draw(outputs(family, noisy=not family.bare))
    ids = ids_of(family, output, data.draw(WIDTHS))
    whole = fold(parsed(family, output, [ids], whole_calls=True))
    prompt = prompt_ids(family, output.prompt)
    for whole_calls in (True, False):
        parser = parser_of(family, output, whole_calls=whole_calls)
        stream = Stream(vocabulary(family.vocabulary), parser, prompt)
        checked = data.draw(st.sets(st.integers(0, len(ids)), max_size=3))
        for place in range(len(ids) + 1):
            if place:
                stream.feed(ids[place - 1 : place])
            events = stream.ended(cut=True)
            check_cut(fold(events), whole, whole_calls=whole_calls)
            stream.ended(cut=False)
            if place in checked:
                once = parse_ids(vocabulary(family.vocabulary), parser, [ids[:place]], prompt=prompt, cut=True)
                assert once == events


def check_cut(cut: Message, whole: Message, *, whole_calls: bool) -> None:
    """Compare the message of a truncated output with the message of all of it."""
    if whole_calls:
        assert cut.calls == whole.calls[: len(cut.calls)]
        return
    names = [name for name, _ in whole.calls]
    assert [name for name, _ in cut.calls] == names[: len(cut.calls)]
