"""The state between two pieces of an output, as JSON."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.errors import BadRequest
from derender.parsing import ParserState, dump_state, load_state, parse, read_start
from tests.support.parsers import request_parser

from ..support import TOOLS, marked_parsers, to_pieces

if TYPE_CHECKING:
    from derender.parsing import Parser

OUTPUTS: Final = {
    ("hermes", "qwen3"): '<think>hm</think>\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "P"}}\n'
    '</tool_call><tool_call>{"arguments": {"a": [1]}, "name": "get_time", "id": "x"}</tool_call> tail',
    ("qwen3_xml", None): "Hi <tool_call>\n<function=get_weather>\n<parameter=city>\nP\n</parameter>\n"
    "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_time>\n",
    (
        "gemma4",
        "gemma4",
    ): '<|channel>thought\nhm<channel|><|tool_call>call:get_weather{city:<|"|>a{b<|"|>}<tool_call|>',
    (
        "qwen3_coder",
        "qwen3",
    ): "<think>I could <tool_call>\n<function=get_time>\n</function>\n</tool_call> \nbut no.",
    ("pythonic", None): "[get_weather(city='P', days=2), get_time()]",
    (
        "openai",
        "openai_gptoss",
    ): "<|channel|>commentary to=functions.get_time <|constrain|>json<|message|>{}<|call|>",
}


def parser_of(tools: str, reasoning: str | None, *, whole_calls: bool = True) -> Parser:
    return request_parser(marked_parsers(tools, reasoning), tools=TOOLS, whole_calls=whole_calls)


@pytest.mark.parametrize("whole_calls", [False, True])
@pytest.mark.parametrize(("names", "output"), OUTPUTS.items())
def test_a_state_survives_json(names: tuple[str, str | None], output: str, whole_calls: bool) -> None:
    parser = parser_of(*names, whole_calls=whole_calls)
    state = read_start(parser, None).state
    seen = set()
    for piece in to_pieces(parser, output):
        for character in [piece] if isinstance(piece, int) else piece:
            _, state = parse(parser, state, [character])
            dumped = json.dumps(dump_state(parser, state), ensure_ascii=False)
            assert load_state(parser, json.loads(dumped)) == state
            dumped.encode()
            seen.add(state.region)
    assert len(seen) > 2


def test_held_markers_are_dumped_as_ids() -> None:
    parser = parser_of("hermes", "qwen3")
    (call,) = to_pieces(parser, "<tool_call>")
    _, state = parse(parser, read_start(parser, None).state, ["Hi\n", call, " \n"])
    dumped = dump_state(parser, state)
    assert dumped == {
        "region": "content",
        "held": ["\n", call, " \n"],
        "shown": "content",
        "answered": True,
    }
    assert load_state(parser, dumped) == state


def test_markers_in_a_buffered_call_are_dumped_as_ids() -> None:
    parser = parser_of("gemma4", "gemma4")
    pieces = to_pieces(parser, '<|tool_call>call:get_weather{city:<|"|>P')
    _, state = parse(parser, read_start(parser, None).state, pieces)
    dumped = dump_state(parser, state)
    assert dumped["calls"]["raw"] == pieces
    assert load_state(parser, dumped) == state


def test_a_state_is_small_if_nothing_is_open() -> None:
    parser = parser_of("hermes", "qwen3")
    assert dump_state(parser, read_start(parser, None).state) == {"region": "answer"}


CALL: Final = {"name": "f"}
BUFFERED: Final = {"status": "buffered", "call": CALL}
VALUE: Final = {"kind": "value"}
OBJECTS: Final = {"kind": "call_objects"}


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(None, id="nothing"),
        pytest.param([], id="a list"),
        pytest.param("answer", id="a string"),
        pytest.param({}, id="no region"),
        pytest.param({"region": "nowhere"}, id="an unknown region"),
        pytest.param({"region": None}, id="a region of another type"),
        pytest.param({"region": "answer", "more": 1}, id="an unknown field"),
        pytest.param({"region": "answer", "held": 7}, id="a marker that is none"),
        pytest.param({"region": "answer", "held": ["x", -1]}, id="an unknown marker"),
        pytest.param({"region": "answer", "held": [None]}, id="held that is no text"),
        pytest.param({"region": "answer", "held": "\ud800"}, id="text that is no Unicode"),
        pytest.param({"region": "answer", "leading_space": " " * 129}, id="too much space"),
        pytest.param({"region": "answer", "emitted": -1}, id="a negative number"),
        pytest.param({"region": "answer", "emitted": 2**31}, id="a huge number"),
        pytest.param({"region": "answer", "answered": "yes"}, id="a flag of another type"),
        pytest.param({"region": "answer", "calls": {}}, id="calls without a status"),
        pytest.param({"region": "answer", "calls": []}, id="calls that are a list"),
        pytest.param({"region": "function", "calls": {"status": "lost"}}, id="an unknown status"),
        pytest.param({"region": "answer", "calls": BUFFERED}, id="calls in text"),
        pytest.param({"region": "function", "calls": {**BUFFERED, "origin": "lost"}}, id="begun nowhere"),
        pytest.param(
            {"region": "function", "calls": {**BUFFERED, "origin": "parameter"}}, id="begun in a value"
        ),
        pytest.param(
            {"region": "function", "calls": {**BUFFERED, "raw": [-1]}}, id="an unknown marker in a call"
        ),
        pytest.param(
            {"region": "function", "calls": {"status": "streamed", "call": CALL}},
            id="a call that was not emitted",
        ),
        pytest.param({"region": "parameter"}, id="a value of no call"),
        pytest.param({"region": "parameter", "calls": BUFFERED}, id="a region without its reading"),
        pytest.param(
            {"region": "parameter", "calls": {**BUFFERED, "reading": OBJECTS}},
            id="the reading of another region",
        ),
        pytest.param(
            {"region": "function", "calls": {**BUFFERED, "reading": VALUE}}, id="a reading outside one"
        ),
        pytest.param(
            {"region": "parameter", "calls": {"status": "buffered", "reading": VALUE}},
            id="a value without an open call",
        ),
        pytest.param(
            {"region": "parameter", "calls": {**BUFFERED, "reading": {"kind": "lost"}}}, id="an unknown reading"
        ),
        pytest.param(
            {"region": "parameter", "calls": {**BUFFERED, "reading": {**VALUE, "form": "x"}}},
            id="an unknown form",
        ),
        pytest.param(
            {"region": "parameter", "calls": {**BUFFERED, "reading": {**VALUE, "notation": {"phase": "key"}}}},
            id="a notation's state",
        ),
        pytest.param(
            {
                "region": "parameter",
                "calls": {**BUFFERED, "reading": {**VALUE, "form": "json", "notation": {"quote": 2}}},
            },
            id="a quote that JSON has not",
        ),
    ],
)
def test_a_forged_state_is_refused(state: object) -> None:
    parser = parser_of("qwen3_xml", "qwen3")
    with pytest.raises(BadRequest, match=r"^the state was not made by this parser$"):
        load_state(parser, state)


@pytest.mark.parametrize(
    ("names", "region", "reading", "quotes"),
    [
        (("hermes", None), "objects", lambda state: {**OBJECTS, "value": state}, 2),
        (("gemma4", None), "arguments", lambda state: state, 2),
        (("pythonic", None), "arguments", lambda state: state, 4),
    ],
)
def test_a_state_has_one_of_its_notations_quotes(
    names: tuple[str, str | None], region: str, reading: Any, quotes: int
) -> None:
    parser = parser_of(*names)

    def load(quote: int) -> None:
        state = {"kind": "notation", "phase": "string", "open": "}", "quote": quote}
        load_state(parser, {"region": region, "calls": {**BUFFERED, "reading": reading(state)}})

    for quote in range(quotes):
        load(quote)
    with pytest.raises(BadRequest):
        load(quotes)


def test_a_state_with_an_open_call_is_accepted() -> None:
    parser = parser_of("qwen3_xml", "qwen3")
    state: dict[str, Any] = {"region": "parameter", "calls": {**BUFFERED, "reading": VALUE}}
    assert load_state(parser, state).calls is not None
    state["calls"]["status"], state["emitted"] = "streamed", 1
    assert load_state(parser, state).emitted == 1


def test_the_character_of_a_marker_is_refused() -> None:
    parser = parser_of("hermes", "qwen3")
    (character, *_) = parser.grammar.texts
    with pytest.raises(BadRequest):
        load_state(parser, {"region": "answer", "held": [character]})


def test_a_state_of_another_vocabulary_is_refused() -> None:
    parser, other = parser_of("hermes", "qwen3"), parser_of("kimi_k2", None)
    state = ParserState("content", held=next(iter(parser.grammar.texts)))
    with pytest.raises(BadRequest):
        load_state(other, {**dump_state(parser, state), "held": [999]})


def test_loading_does_not_change_the_dumped_state() -> None:
    parser = parser_of("gemma4", "gemma4")
    pieces = to_pieces(parser, '<|tool_call>call:get_weather{city:<|"|>P')
    _, state = parse(parser, read_start(parser, None).state, pieces)
    dumped = dump_state(parser, state)
    copied = copy.deepcopy(dumped)
    load_state(parser, dumped)
    assert dumped == copied
