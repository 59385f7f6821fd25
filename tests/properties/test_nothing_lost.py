"""Whatever a model writes, nothing of it is lost, doubled or invented."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st

from tests.support.engine import parse_ids
from tests.support.parsers import request_parser

from .accounts import find_faults
from .broken import altered, mixed
from .known import quickly, with_known
from .outputs import FAMILIES
from .sources import PARSERS

if TYPE_CHECKING:
    from .broken import Broken
    from .outputs import Family


@pytest.mark.parametrize("tools", with_known("mixed", PARSERS))
def test_mixed_markup_is_accounted_for(tools: str | None) -> None:
    quickly(12, check, mixed(tools), st.booleans())


@pytest.mark.parametrize("family", with_known("altered", FAMILIES))
def test_altered_messages_are_accounted_for(family: Family) -> None:
    quickly(8, check, altered(family), st.booleans())


def check(output: Broken, whole_calls: bool) -> None:
    parser = request_parser(output.source.parsers, **output.client, whole_calls=whole_calls)
    events = parse_ids(output.source.vocabulary, parser, [output.ids], prompt=output.prompt, cut=output.cut)
    assert not find_faults(output, events), events
