"""Recorded ids parse to the same events, however they are split."""

from __future__ import annotations

import random
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from derender.decoding import detokenizer
from derender.decoding.pieces import read_pieces
from derender.parsing import finish, load_parsers, parse, start
from tests.properties.streams import join_events
from tests.support.parsers import request_parser

from .parsers import ParserNames, parsers_of
from .replay import client_options
from .vocabularies import FIXTURES, ids_of, tokenizer_of, vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canitoolcall.fixtures import Fixture

    from derender.parsing import Event, Parser, Parsers


@cache
def load(name: str, parsers: ParserNames) -> Parsers:
    loaded = load_parsers(vocabulary(name), *parsers)
    assert loaded
    return loaded


def parse_chunks(fixture: Fixture, parser: Parser, chunks: Sequence[Sequence[int]]) -> list[Event]:
    known, prompt = parser.grammar.vocabulary, ids_of(fixture.id).prompt
    decoding = detokenizer.start(known, prompt, skip_special_tokens=False)
    state, events = start(parser, prompt), []
    for chunk in chunks:
        pieces, decoding = read_pieces(known, parser.markers, decoding, chunk)
        more, state = parse(parser, state, pieces)
        events += more
    last, _ = finish(parser, state, cut=fixture.truncated)
    return join_events([*events, *last])


@pytest.mark.parametrize("whole_calls", [False, True])
@pytest.mark.parametrize("fixture", FIXTURES, ids=attrgetter("id"))
def test_any_split_of_recorded_ids_gives_the_same(fixture: Fixture, whole_calls: bool) -> None:
    parsers = load(tokenizer_of(fixture.reference_model), parsers_of(fixture.reference_model))
    parser = request_parser(parsers, **client_options(fixture), whole_calls=whole_calls)
    ids = ids_of(fixture.id).output
    whole = parse_chunks(fixture, parser, [ids])
    assert parse_chunks(fixture, parser, [[token_id] for token_id in ids]) == whole
    ends = sorted(random.Random(fixture.id).choices(range(len(ids) + 1), k=8))
    assert (
        parse_chunks(fixture, parser, [ids[a:b] for a, b in zip([0, *ends], [*ends, None], strict=True)])
        == whole
    )
