"""Any ids with any parsers: nothing is raised, and any split gives the same."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from derender.parsing import AUTO, REASONING_PARSERS, TOOL_CALL_PARSERS, ParserError, load_parsers
from tests.conformance.vocabularies import vocabulary
from tests.support.engine import join_events, parse_ids
from tests.support.parsers import fold, request_parser

from .encoding import encode, ids_of, prompt_ids, split
from .examples import tried
from .outputs import FAMILIES, Family, outputs
from .values import MARKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.parsing import Parsers

TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {
                    "s": {"type": "string"},
                    "n": {"type": "number"},
                    "l": {"type": "array"},
                    "o": {"type": ["object", "null"]},
                    "b": {"anyOf": [{"type": "boolean"}, {"type": "string"}]},
                },
            },
        },
    }
    for name in ("f", "get_weather")
]
CHOICES: Final[tuple[str | dict[str, Any], ...]] = (
    "auto",
    "none",
    "required",
    {"type": "function", "function": {"name": "f"}},
)
PIECES: Final = (
    # Any family's markup, but for its tokens.
    '{"name": "f", "arguments": {', '{"name": "f"', '"arguments": ', '"parameters": "{}"', "[{", "}]", "}}",
    "f", "get_weather", "f(", "[f(", "s=", "call:f{", "functions.f:0", "functions.f", "to=functions.f ",
    "thought\n", "<function=f>", "</function>", "<parameter=s>", "<parameter=n>\n", "\n</parameter>\n",
    "function", "```json\n", "analysis", "commentary", "final", " json", "assistant", 'invoke name="f">',
    'invoke name="f"/>', "invoke>", 'parameter name="s" string="true">', 'parameter name="o" string="false">',
    'parameter name="n">', "parameter>", "function_calls>", "tool_calls>", " calls>", " invoke>", "<", "</",
    "response", "think", "tools", "message", 'call tool="f" index="1"', 'argument key="s" type="string"',
    'argument key="o" type="object"', "argument", "call", '"s"', "s", "n", "l", "o:", "b",
    # What values are made of.
    '"', "'", "'''", "{", "}", "[", "]", "(", ")", ":", ",", ";", "=", "\\", "\\u00e9", "\\ud83d\\ude00",
    "\\ud800", '"name": "\\ud800"', "0", "-", "1.5e3", "true", "None", "null", "x", "é", "🌸", " ", "\n",
    "\n\n", "\t", " " * 130, "x" * 210, "1" * 410, "[" * 210, '"name": "' + "y" * 250 + '"',
)  # fmt: skip
OWN: Final = "hf"
"""Parsers that a tokenizer describes."""
tool_parsers = pytest.mark.parametrize("tools", [*sorted(TOOL_CALL_PARSERS.keys() - {OWN}), None])


def served(tools: str | None) -> list[Family]:
    """Return the families whose vocabularies and outputs a tool-call parser is tried with."""
    return [family for family in FAMILIES if family.tools == tools] or [
        family for family in FAMILIES if family.name in ("hermes", "llama4_json, tag as text")
    ]


@cache
def loaded(name: str, tools: str | None, reasoning: str | None) -> Parsers | None:
    return load_parsers(vocabulary(name), tools, reasoning)


@st.composite
def any_ids(draw: st.DrawFn, family: Family, markers: Sequence[int]) -> list[int]:
    """Generate ids at random, of markup, or of an output with some of them changed."""
    size = vocabulary(family.vocabulary).manifest.size
    piece = st.one_of(
        st.sampled_from(PIECES).map(lambda text: encode(family, text, 12)),
        st.sampled_from([*markers, *markers, 0]).map(lambda token_id: [token_id]),
    )
    match draw(st.integers(0, 5)):
        case 0:
            return draw(st.lists(st.integers(0, size - 1), max_size=30))
        case 1 | 2:
            return [token_id for ids in draw(st.lists(piece, max_size=25)) for token_id in ids]
        case _:
            ids = ids_of(family, draw(outputs(family)), 12)
            for _ in range(draw(st.integers(1, 4))):
                at = draw(st.integers(0, len(ids)))
                ids[at : at + draw(st.sampled_from((0, 0, 1, 1, 2, 8)))] = draw(piece | st.just([]))
            return ids


@tool_parsers
@tried(14)
@given(data=st.data())
def test_any_ids_are_parsed(tools: str | None, data: st.DataObject) -> None:
    family = data.draw(st.sampled_from(served(tools)))
    reasoning = data.draw(st.sampled_from([*sorted(REASONING_PARSERS.keys() - {OWN}), None]))
    if tools in ("openai", "kimi_k3"):
        reasoning = data.draw(st.sampled_from((None, family.reasoning)))
    try:
        parsers = loaded(family.vocabulary, tools, reasoning)
    except ParserError:
        reject()
    if parsers is None:
        reject()
    choice = data.draw(st.sampled_from(CHOICES))
    ids = data.draw(any_ids(family, sorted(parsers.grammar(AUTO).markers)))
    sizes = data.draw(st.lists(st.integers(0, 9), max_size=12))
    prompt = prompt_ids(family, data.draw(st.sampled_from((None, family.prompt))))
    cut = data.draw(st.booleans())
    for whole_calls in (True, False):
        parser = request_parser(
            parsers,
            tools=TOOLS,
            tool_choice=choice,
            parallel_tool_calls=data.draw(st.booleans()),
            chat_template_kwargs=data.draw(st.sampled_from(({}, {"thinking": True}, {"thinking": False}))),
            whole_calls=whole_calls,
        )
        whole = parse_ids(vocabulary(family.vocabulary), parser, [ids], prompt=prompt, cut=cut)
        result = fold(whole)
        for chunks in (split(ids, sizes), [[token_id] for token_id in ids]):
            assert parse_ids(vocabulary(family.vocabulary), parser, chunks, prompt=prompt, cut=cut) == whole
        if choice == "none":
            assert not result.calls
        if whole_calls:
            assert all(is_object(arguments) for _, arguments in result.calls)


def is_object(arguments: str) -> bool:
    def refused(constant: str) -> Any:
        raise AssertionError(f"{constant} is no JSON")

    return isinstance(json.loads(arguments, parse_constant=refused), dict)


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
@tried(6)
@given(data=st.data())
def test_unwanted_calls_are_text(family: Family, data: st.DataObject) -> None:
    """The text of unwanted calls is content as it was written, or reasoning in a format of messages."""
    output = data.draw(outputs(family, noisy=False))
    parser = request_parser(
        family.parsers(), **{**output.request, "tool_choice": "none"}, whole_calls=data.draw(st.booleans())
    )
    ids = ids_of(family, output, 12)
    prompt = prompt_ids(family, output.prompt)
    events = parse_ids(vocabulary(family.vocabulary), parser, [ids], prompt=prompt)
    assert (
        join_events(parse_ids(vocabulary(family.vocabulary), parser, [[each] for each in ids], prompt=prompt))
        == events
    )
    result = fold(events)
    assert not result.calls
    if family.joins:
        assert result.content == output.content
        assert not any(marker in result.content for marker in family.markers())
    elif family.tools not in ("kimi_k3", "hf"):
        assert result.reasoning == output.reasoning
        assert family.plain(output.text).endswith(result.content)
    assert not any(ord(character) in MARKS for character in result.content)
