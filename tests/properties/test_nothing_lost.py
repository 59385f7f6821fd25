"""Whatever a model writes, nothing of it is lost, doubled or invented."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine import parse_ids
from tests.support.parsers import request_parser

from .accounts import find_faults
from .broken import Broken, altered, mixed
from .known import quickly, with_known
from .outputs import FAMILIES, Family
from .sources import PARSERS


def check(output: Broken, *, whole_calls: bool) -> None:
    parser = request_parser(output.source.parsers, **output.client, whole_calls=whole_calls)
    events = parse_ids(output.source.vocabulary, parser, [output.ids], prompt=output.prompt, cut=output.cut)
    assert not find_faults(output, events), events


@pytest.mark.parametrize("tools", with_known("mixed", PARSERS))
@quickly(12)
@given(data=st.data())
def test_mixed_markup_is_accounted_for(tools: str | None, data: st.DataObject) -> None:
    check(data.draw(mixed(tools)), whole_calls=data.draw(st.booleans()))


@pytest.mark.parametrize("family", with_known("altered", FAMILIES))
@quickly(8)
@given(data=st.data())
def test_altered_messages_are_accounted_for(family: Family, data: st.DataObject) -> None:
    check(data.draw(altered(family)), whole_calls=data.draw(st.booleans()))
