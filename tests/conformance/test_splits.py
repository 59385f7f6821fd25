"""Recorded ids parse to the same events, however they are split."""

from __future__ import annotations

import random
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from derender.parsing import load_parsers
from tests.support.engine import parse_ids
from tests.support.parsers import request_parser

from .parsers import ParserNames, parsers_of
from .replay import client_options
from .vocabularies import FIXTURES, ids_of, tokenizer_of, vocabulary

if TYPE_CHECKING:
    from canitoolcall.fixtures import Fixture

    from derender.parsing import Parsers


@cache
def load(name: str, parsers: ParserNames) -> Parsers:
    loaded = load_parsers(vocabulary(name), *parsers)
    assert loaded
    return loaded


@pytest.mark.parametrize("whole_calls", [False, True])
@pytest.mark.parametrize("fixture", FIXTURES, ids=attrgetter("id"))
def test_any_split_of_recorded_ids_gives_the_same(fixture: Fixture, whole_calls: bool) -> None:
    parsers = load(tokenizer_of(fixture.reference_model), parsers_of(fixture.reference_model))
    parser = request_parser(parsers, **client_options(fixture), whole_calls=whole_calls)
    prompt, ids = ids_of(fixture.id).prompt, ids_of(fixture.id).output
    ends = sorted(random.Random(fixture.id).choices(range(len(ids) + 1), k=8))
    whole, *split = (
        parse_ids(parser.grammar.vocabulary, parser, chunks, prompt=prompt, cut=fixture.truncated)
        for chunks in (
            [ids],
            [[token_id] for token_id in ids],
            [ids[begin:end] for begin, end in zip([0, *ends], [*ends, None], strict=True)],
        )
    )
    assert split == [whole, whole]
