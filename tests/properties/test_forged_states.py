"""Forged states: whatever value a client puts into an unsigned state, it gets an answer or a 400."""

from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec
import pytest

from derender.parsing.arguments import call_objects, notation
from derender.protocol.stream import StreamState
from derender.streaming.seal import open_state
from tests.conformance.vocabularies import vocabulary
from tests.support.api_client import CHAT
from tests.support.json_mutations import Place, at, places, replaced
from tests.support.models import served
from tests.support.parsers import request_parser
from tests.unit.streaming.support import Local, chunk
from tests.unit.streaming.test_state import content_of, sealed

from .encoding import ids_of, prompt_ids, split
from .examples import EXAMPLES
from .outputs import FAMILIES, Call, Family, Output, written
from .values import Number

if TYPE_CHECKING:
    from collections.abc import Sequence


STATES: Final = 2
"""Places at which an output is cut."""
TRIED: Final = max(EXAMPLES // 100, 2)
"""Other values that are tried at each place of a state."""
TEXTS: Final = (
    *("", "x", "x" * 300, "\0", '"', "'", '"x', '"\\ud800"', "{", "}", "K", ")", "}K", "null", "1", "-1", "é"),
    *("\u0661", "9" * 5_000, "\n", " ", "name", "arguments", "id", "string", "json", "undecided"),
    *get_args(notation.Phase),
    *get_args(call_objects.Phase),
)
NUMBERS: Final = (-1, 0, 1, 2, 3, 4, 7, 63, 64, 65, 255, 2**31 - 1, 2**31, 2**62 - 1, 2**62, 2**64 - 1)


def filled(value: Any, dumped: Any) -> Any:
    """Return a state as JSON with all its fields, those with their default, too.

    Args:
        value: The state.
        dumped: What was dumped of it.
    """
    if isinstance(value, msgspec.Struct):
        given = dumped if isinstance(dumped, dict) else {}
        named = {name: getattr(value, name) for name in value.__struct_fields__}
        return given | {name: filled(each, given.get(name)) for name, each in named.items()}
    if isinstance(value, dict | list | tuple | set | str):
        # Texts and lists have a form of their own.
        return dumped if dumped is not None else msgspec.to_builtins(value)
    return value


def others(value: object, place: Place, regions: Sequence[str]) -> Sequence[object]:
    """Return values of the same type, and a few that are not."""
    if place[-1] in ("region", "origin"):
        return regions
    match value:
        case bool():
            return (not value, None, 2)
        case int():
            return (*NUMBERS, value + 1, True, "1", None)
        case str():
            return (*TEXTS, f"{value}x", None, 5)
        case list():
            return ([], [*value, *value], [0] * 70, [-1], [2**31 - 1], [5, 1], ["x"], [[]], None)
        case dict():
            return ({}, None, [], "x")
    return (*TEXTS, *NUMBERS, {}, [])


def cut_output(family: Family) -> Output:
    """Return an output with reasoning, content and two calls."""
    guided = family.name in ("required", "named")
    calls = [Call("f", {"text": 'a "b" c', "list": [Number("1"), {"x": "y"}]}), Call("f", {"text": "z"})]
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "list": {"type": "array"}}}
    return written(
        family,
        calls[: 1 if family.name == "named" else None],
        schema,
        content="" if guided else "Sure.",
        reasoning="Why?",
    )


@pytest.mark.parametrize("deltas", ["fragments", "complete"])
@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_each_value_of_a_state_may_be_forged(family: Family, deltas: Any) -> None:
    output = cut_output(family)
    parsers = family.parsers()
    parser = request_parser(parsers, **output.request, whole_calls=deltas == "complete")
    model = dataclasses.replace(
        served(vocabulary(family.vocabulary), max_model_len=4096), parsers=parsers, tool_call_deltas=deltas
    )
    local, chosen = Local(model), random.Random(f"{family.name} {deltas}")
    ids = ids_of(family, output, 3)
    size = len(ids) // (STATES + 1) + 1
    request = {
        "stream": True,
        "chat_request": {**output.request, "stop": ["quixotic"]},
        "prompt_token_ids": list(prompt_ids(family, output.prompt)),
    }
    regions = (*parser.grammar.regions, "x")
    state: Any = None
    before, *after = split(ids, [size] * STATES)
    for chunk_ids in after:
        _, answer = local.post(CHAT, {**request, "generate_chunk": chunk(before), "stream_state": state})
        state, before = answer["stream_state"], chunk_ids
        content = content_of(state)
        opened = open_state(model.seal, "chat", parser, StreamState.model_validate(state))
        content[-1] = [[index, filled(opened.choices[index], dumped)] for index, dumped in content[-1]]
        assert go_on(local, request, sealed(state, content), before) == 200
        for place in places(content)[1:]:
            values = others(at(content, place), place, regions)
            for value in chosen.sample(values, min(TRIED, len(values))):
                forged = sealed(state, replaced(content, place, value))
                assert go_on(local, request, forged, before) in (200, 400), (place, value)


def go_on(local: Local, request: dict[str, Any], state: object, token_ids: Sequence[int]) -> int:
    """Send the next chunk with a state, and then the last. Returns the status."""
    more = {"generate_chunk": chunk(token_ids), "stream_state": state}
    status, answer = local.post(CHAT, {**request, **more})
    if status == 200:
        last = {"generate_chunk": chunk([], "length"), "stream_state": answer["stream_state"]}
        status, _ = local.post(CHAT, {**request, **last})
    return status
