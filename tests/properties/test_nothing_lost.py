"""Whatever a model writes, nothing of it is lost, doubled or invented."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.parsing.characters import decode_markers
from tests.support.engine import Stream
from tests.support.parsers import request_parser

from .accounts import find_faults
from .broken import altered, mixed
from .examples import tried
from .outputs import FAMILIES
from .sources import PARSERS

if TYPE_CHECKING:
    from .broken import Broken
    from .outputs import Family


@pytest.mark.parametrize("tools", PARSERS)
@tried(12)
@given(data=st.data())
def test_mixed_markup_is_accounted_for(tools: str | None, data: st.DataObject) -> None:
    outputs = mixed(tools).filter(lambda output: output.source.keeps_all)
    check(data.draw(outputs), data.draw(st.booleans()))


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
@tried(8)
@given(data=st.data())
def test_altered_messages_are_accounted_for(family: Family, data: st.DataObject) -> None:
    check(data.draw(altered(family)), data.draw(st.booleans()))


def check(output: Broken, whole_calls: bool) -> None:
    parser = request_parser(output.source.parsers, **output.client, whole_calls=whole_calls)
    stream = Stream(output.source.vocabulary, parser, output.prompt)
    stream.feed(output.ids)
    calls = stream.state.calls
    begun = decode_markers("".join(calls.raw if calls else ()) + stream.state.held, parser.grammar.texts)
    events = stream.ended(cut=output.cut)
    assert not find_faults(output, events, begun), events
