"""States: what is tampered with is refused, or parses without raising anything; none is large."""

from __future__ import annotations

import contextlib
import copy
import random
from string import ascii_letters
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derender.decoding.pieces import read_pieces
from derender.errors import BadRequest
from derender.parsing import dump_state, finish, load_state, parse
from derender.parsing.engine.format import Arguments, CallObjects
from derender.parsing.engine.format import Value as ValueRegion
from derender.parsing.engine.lifecycle import Status
from tests.conformance.vocabularies import vocabulary
from tests.support.engine import Stream
from tests.support.json_mutations import mutated, places, replaced
from tests.support.parsers import fold, request_parser

from .encoding import encode, ids_of, prompt_ids, read_calls, split
from .examples import tried
from .outputs import FAMILIES, Call, Family, outputs, written
from .values import Number

if TYPE_CHECKING:
    from derender.parsing import Parser

    from .outputs import Output
    from .values import Value

MOST_BYTES: Final = 2048
"""Of a state, where calls are given as they come."""
families = pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])

NOTATION: Final = st.fixed_dictionaries(
    {"kind": st.just("notation")},
    optional={
        "phase": st.sampled_from(
            (
                "value",
                "first",
                "next",
                "key",
                "next key",
                "colon",
                "after",
                "string",
                "key string",
                "done",
                "bad",
            )
        ),
        "open": st.sampled_from(("", "K", "}", "]", ")", "}]", "K}", "]K", "}" * 200, "x")),
        "quote": st.integers(-1, 4),
    },
)
TEXTS: Final = st.sampled_from(
    (
        "",
        "{",
        '{"a": ',
        '"',
        '"x',
        '"x"',
        "null",
        "12",
        "tru",
        "f",
        "\\",
        "\\u12",
        " ",
        "<",
        "x" * 600,
        "é",
        '{"name": "f"',
    )
)
CALL: Final = st.fixed_dictionaries({"name": TEXTS}, optional={"written_id": TEXTS, "arguments": TEXTS})
OPEN_CALL: Final = st.fixed_dictionaries(
    {"name": TEXTS},
    optional={
        "written_id": TEXTS,
        "arguments": st.lists(TEXTS, max_size=2),
        "started": st.booleans(),
        "parameters": st.booleans(),
        "keys": st.lists(st.integers(-(2**70), 2**70), max_size=2) | st.just([0] * 65),
        "key": TEXTS | st.none(),
    },
)
READINGS: Final = {
    ValueRegion: st.fixed_dictionaries(
        {"kind": st.just("value")},
        optional={
            "form": st.sampled_from(("string", "json", "undecided")),
            "kept": TEXTS,
            "notation": NOTATION,
        },
    ),
    Arguments: NOTATION,
    CallObjects: st.fixed_dictionaries(
        {"kind": st.just("call_objects")},
        optional={
            "phase": st.sampled_from(
                ("begin", "key", "next key", "colon", "value", "after value", "between", "next", "done", "bad")
            ),
            "in_list": st.booleans(),
            "key": st.sampled_from(("", "name", "arguments", "parameters", "id", "x")),
            "value": NOTATION,
            "text": TEXTS,
            "named": st.booleans(),
            "arguments": TEXTS,
            "has_arguments": st.booleans(),
            "written_id": TEXTS,
        },
    ),
}
"""Kind of region → what is read in it."""


def calls(reading: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Open markup of calls, and what is read in it."""
    return st.fixed_dictionaries(
        {"status": st.sampled_from(tuple(Status)), "reading": reading},
        optional={
            "origin": st.sampled_from(("content", "reasoning", "answer", "x")),
            "raw": TEXTS,
            "kept": st.lists(CALL, max_size=2),
            "call": OPEN_CALL,
        },
    )


PARTS: Final[dict[str, st.SearchStrategy[Any]]] = {
    "held": TEXTS | st.lists(TEXTS | st.integers(-1, 300_000), max_size=3),
    "leading_space": TEXTS,
    "answered": st.booleans(),
    "reasoned": st.booleans(),
    "marked": st.booleans(),
    "next_name": TEXTS,
    "emitted": st.integers(-1, 3) | st.sampled_from((2**31 - 1, 2**31)),
    "calls": calls(st.one_of(st.none(), *READINGS.values())) | st.none(),
}


def parser_of(family: Family, output: Output, *, whole_calls: bool) -> Parser:
    return request_parser(family.parsers(), **output.request, whole_calls=whole_calls)


@st.composite
def tampered(draw: st.DrawFn, parser: Parser, dumped: dict[str, Any]) -> Any:
    """A state of which parts are others: any, of the kind that belongs there, or none."""
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return draw(mutated(dumped))
    changed = copy.deepcopy(dumped)
    if kind == 1:
        # One of its values, deep inside.
        place = draw(st.sampled_from(places(changed)[1:]))
        return replaced(changed, place, draw(TEXTS | st.integers(-1, 4) | st.booleans() | st.none()))
    regions = sorted(parser.grammar.regions)
    if kind == 2:
        return {**changed, "region": draw(st.sampled_from(regions))}
    if kind == 3:
        name = draw(st.sampled_from(sorted(PARTS)))
        return {**changed, name: draw(PARTS[name])}
    region = draw(st.sampled_from(regions))
    reading = READINGS.get(type(parser.grammar.regions[region]), st.none())
    made = {"region": region, **draw(st.fixed_dictionaries({}, optional=PARTS))}
    return {**made, "calls": draw(calls(reading) | st.none())}


@families
@tried(14)
@given(data=st.data())
def test_a_tampered_state_is_refused_or_parsed(family: Family, data: st.DataObject) -> None:
    output = data.draw(outputs(family))
    parser = parser_of(family, output, whole_calls=data.draw(st.booleans()))
    ids = ids_of(family, output, 3)
    stream = Stream(vocabulary(family.vocabulary), parser, prompt_ids(family, output.prompt))
    at = data.draw(st.integers(0, len(ids)))
    stream.feed(ids[:at])
    changed = data.draw(tampered(parser, dump_state(parser, stream.state)))
    with contextlib.suppress(BadRequest):
        state = load_state(parser, changed)
        pieces, _ = read_pieces(stream.vocabulary, parser.markers, stream.decoding, ids[at:])
        finish(parser, state, cut=True)
        _, state = parse(parser, state, pieces)
        dump_state(parser, state)
        finish(parser, state, cut=False)


@families
@tried(4)
@given(data=st.data())
def test_states_are_small(family: Family, data: st.DataObject) -> None:
    output = data.draw(outputs(family))
    parser = parser_of(family, output, whole_calls=False)
    stream = Stream(vocabulary(family.vocabulary), parser, prompt_ids(family, output.prompt))
    for token_id in ids_of(family, output, data.draw(st.sampled_from((1, 12)))):
        stream.feed([token_id])
        assert stream.size < MOST_BYTES, stream.state


LONG_TEXT: Final = ("def f(x):\n\treturn \"é\" + '東京' \\\\ <b>{x}</b> 🌸 " * 500)[:20_000]
LONG_LIST: Final[list[Value]] = [Number("12345"), "a b", None] * 300
LONG_REASONING: Final = ("But why? " * 600)[:5_000] + "!"
MANY_SPACES: Final = "a" + " " * 1_000 + "b"
SCHEMA: Final = {"type": "object", "properties": {"text": {"type": "string"}, "list": {"type": "array"}}}


@families
def test_states_of_long_outputs_are_small(family: Family) -> None:
    calls = [
        Call("f", {"text": LONG_TEXT}),
        Call("f", {"list": LONG_LIST}),
        Call("f", {"text": LONG_TEXT[:5_000], "list": LONG_LIST[:90]}),
        *[Call("f", {"text": "a", "list": []}), Call("f", {})] * 24,
    ]
    guided = family.name in ("required", "named")
    output = written(
        family,
        calls[: 1 if family.name == "named" else None],
        SCHEMA,
        content="" if guided else MANY_SPACES,
        reasoning=LONG_REASONING,
    )
    ids = ids_of(family, output, 12)
    parser = parser_of(family, output, whole_calls=False)
    stream = Stream(vocabulary(family.vocabulary), parser, prompt_ids(family, output.prompt))
    # Now and then one by one.
    for chunk in split(ids, [size for _ in range(len(ids) // 450) for size in (400, *[1] * 50)]):
        stream.feed(chunk)
        assert stream.size < MOST_BYTES, stream.state
    result = fold(stream.ended(cut=False))
    assert read_calls(result) == [(call.name, call.arguments) for call in output.calls]
    assert (result.content, result.reasoning) == (output.content, output.reasoning)


LETTERS: Final = "".join(random.Random(1).choices(ascii_letters, k=4_000))
DIGITS: Final = "".join(random.Random(2).choices("123456789", k=6_000))
"""What compresses badly."""


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(f'{{"arguments": {{"a": "{LETTERS}', id="arguments before the name"),
        pytest.param(f'{{"name": "f", "arguments": "{{\\"a\\": {DIGITS}', id="arguments in a string"),
        pytest.param(f'{{"name": "f", "arguments": [{", ".join(DIGITS)}', id="arguments that are none"),
        pytest.param(f'{{"note": "{LETTERS}', id="another key before the name"),
    ],
)
def test_held_text_makes_a_state_large(call: str) -> None:
    """What may still be no call, or has no name yet, can't be given."""
    (family,) = (each for each in FAMILIES if each.name == "hermes")
    parser = request_parser(family.parsers(), tools=[{"function": {"name": "f"}}])
    stream = Stream(vocabulary(family.vocabulary), parser)
    stream.feed(encode(family, family.marked("<tool_call>") + call, 12))
    assert stream.size > MOST_BYTES
