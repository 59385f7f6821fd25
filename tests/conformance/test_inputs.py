"""What is replayed is what the models wrote."""

from __future__ import annotations

from collections import Counter, defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import pytest

from derender.decoding.detokenizer import detokenize, start
from derender.decoding.state import DetokenizerState

from .parsers import PARSERS, parsers_of
from .vocabularies import (
    FAMILIES,
    FIXTURES,
    ORDINARY,
    STAND_IN,
    ids_of,
    prompt_of,
    tokenizer,
    tokenizer_of,
    vocabulary,
)

if TYPE_CHECKING:
    from canitoolcall.fixtures import Fixture

REPLAYED_WITH: Final = {
    "qwen3": 70,
    "gptoss": 51,
    "deepseek_v3": 17,
    "deepseek_v32": 29,
    "deepseek_v4": 39,
    "llama3_3": 24,
    "gemma4": 48,
    STAND_IN: 191,
}
MODELS: Final = tuple(sorted({fixture.reference_model for fixture in FIXTURES}))


def test_all_fixtures_are_present() -> None:
    assert len({fixture.id for fixture in FIXTURES}) == len(FIXTURES) == 469
    assert len(FAMILIES) == 9
    assert Counter(tokenizer_of(fixture.reference_model) for fixture in FIXTURES) == REPLAYED_WITH
    assert {fixture.id for fixture in FIXTURES} >= ORDINARY.keys()


@pytest.mark.parametrize(
    "model", sorted({model.repo for family in FAMILIES.values() for model in family.reference_models})
)
def test_every_model_has_parsers(model: str) -> None:
    tool_call, reasoning = parsers_of(model)
    assert tool_call
    # As recorded: a family without reasoning has no parser for it.
    family = next(f for f in FAMILIES.values() if f.reference_for(model))
    assert reasoning is None or family.has_reasoning


def test_another_model_has_no_parsers() -> None:
    with pytest.raises(LookupError, match="no parsers for someone/else"):
        parsers_of("someone/else")
    assert len({pattern for pattern, _ in PARSERS}) == len(PARSERS)


@pytest.mark.parametrize("fixture", FIXTURES, ids=attrgetter("id"))
def test_ids_decode_to_what_was_recorded(fixture: Fixture) -> None:
    name = tokenizer_of(fixture.reference_model)
    ids = ids_of(fixture.id)
    assert ids.output
    library = tokenizer(name)
    assert library.decode(ids.output, skip_special_tokens=False) == fixture.raw_output
    assert library.decode(ids.prompt, skip_special_tokens=False) == prompt_of(fixture)
    ours = vocabulary(name)
    for prompt in (None, ids.prompt):
        state = start(ours, prompt, skip_special_tokens=False)
        text, _ = detokenize(ours, state, ids.output, skip_special_tokens=False)
        assert text == fixture.raw_output
    text, _ = detokenize(ours, DetokenizerState(), ids.prompt, skip_special_tokens=False)
    assert text == prompt_of(fixture)
    # An output is recorded up to the token that stopped it.
    assert ids.output[-1] not in ours.manifest.stop_token_ids


@pytest.mark.parametrize("model", [model for model in MODELS if tokenizer_of(model) == STAND_IN])
def test_markers_are_ids_where_the_model_wrote_ids(model: str) -> None:
    """As often as the stand-in's marker occurs in each output, one of the recorded ids does."""
    fixtures = [fixture for fixture in FIXTURES if fixture.reference_model == model]
    recorded: defaultdict[int, Counter[str]] = defaultdict(Counter)
    written: defaultdict[str, Counter[str]] = defaultdict(Counter)
    markers = {tokenizer(STAND_IN).token_to_id(each): each for each in FAMILIES[fixtures[0].family].markers}
    for fixture in fixtures:
        assert fixture.output_token_ids
        for token_id in fixture.output_token_ids:
            recorded[token_id][fixture.id] += 1
        for token_id in ids_of(fixture.id).output:
            if token_id in markers:
                written[markers[token_id]][fixture.id] += 1
    occurrences = list(recorded.values())
    assert [marker for marker, counts in written.items() if counts not in occurrences] == []
