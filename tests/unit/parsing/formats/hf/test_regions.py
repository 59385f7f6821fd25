"""Messages that response templates describe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace

from derender.decoding.pieces import read_pieces
from derender.decoding.state import DetokenizerState
from derender.parsing import ParserError, ParserState, load_parsers, read_start
from derender.parsing.patterns import regexes
from derender.vocabulary import find_files, load
from tests.support.engine import parse_chunks
from tests.support.parsers import Message, fold, request_parser

from ...support import TOOLS, encode, marked_vocabulary
from .support import (
    CHATML,
    LISTED,
    MARKERS,
    NAMED,
    TEMPLATES,
    THINK,
    parse_with_template,
    template,
    template_parsers,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tokenizers import Tokenizer


ANSWER: Final = {"open": "<response>\n", "close_pattern": r"\n?</response>"}


@pytest.mark.parametrize(
    ("template", "prompt", "output", "content", "reasoning", "calls"),
    [
        ("json", CHATML, "Hello", "Hello", "", []),
        ("json", CHATML, "<think>\nhm\n</think>\n\nHello<|im_end|>", "Hello", "hm", []),
        ("json", CHATML + "<think>\n", "hm\n</think>\n\nHello", "Hello", "hm", []),
        ("json", CHATML + "<think>\n\n</think>\n\n", "Hello", "Hello", "", []),
        ("json", f"{CHATML}<think>old<|im_end|>\n{CHATML}", "Hello", "Hello", "", []),
        (
            "json",
            CHATML,
            (
                'Sure.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "a", "days": 2}}'
                '\n</tool_call>\n<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'
            ),
            "Sure.",
            "",
            [("get_weather", {"city": "a", "days": 2}), ("get_time", {})],
        ),
        (
            "channels",
            "<|start|>assistant",
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>",
            "Hi",
            "hm",
            [],
        ),
        (
            "channels",
            "<|start|>assistant",
            (
                "<|channel|>analysis<|message|>hm<|end|><|start|>assistant to=functions.get_weather"
                '<|channel|>commentary <|constrain|>json<|message|>{"city": "a"}<|call|>'
            ),
            "",
            "hm",
            [("get_weather", {"city": "a"})],
        ),
        (
            "dialect",
            "<|turn>model\n",
            '<|channel>thought\nhm\n<channel|><|tool_call>call:get_weather{city:<|"|>a{"b<|"|>,days:2}<tool_call|>ok',
            "ok",
            "hm",
            [("get_weather", {"city": 'a{"b', "days": 2})],
        ),
        (
            "tags",
            CHATML + "<think>\n",
            (
                "hm\n</think>\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\n7\n</parameter>\n"
                "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
            ),
            "",
            "hm",
            [("get_weather", {"city": "7", "days": 3})],
        ),
        (
            "lines",
            CHATML,
            "ok <tool_call>get_weather\ncity: a b\ndays: 3\n</tool_call>",
            "ok",
            "",
            [("get_weather", {"city": "a b", "days": 3})],
        ),
    ],
)
def test_a_message_is_parsed(
    template: str, prompt: str, output: str, content: str, reasoning: str, calls: list[tuple[str, object]]
) -> None:
    result = parse_with_template(TEMPLATES[template], prompt, output)
    assert (result.content, result.reasoning) == (content, reasoning)
    assert [(name, json.loads(arguments)) for name, arguments in result.calls] == calls


@pytest.mark.parametrize(("tools", "reasoning"), [("hf", "qwen3"), ("hermes", "hf")])
def test_a_template_combines_with_no_other_format(tools: str, reasoning: str) -> None:
    vocabulary = marked_vocabulary(MARKERS)
    vocabulary.manifest = replace(vocabulary.manifest, response_template=TEMPLATES["json"])
    with pytest.raises(ParserError, match="it can't be combined with"):
        load_parsers(vocabulary, tools, reasoning)


@pytest.mark.parametrize("pattern", ["", "$", "(?=x)", "x*", "(?:)"])
def test_patterns_of_no_width_do_not_loop(pattern: str) -> None:
    template = {
        "start_anchor": CHATML,
        "fields": {"thinking": {"open_pattern": pattern, "close_pattern": pattern}, "content": {}},
    }
    result = parse_with_template(template, CHATML, "a xx b")
    assert len(result.content + result.reasoning) <= len("a xx b")


@pytest.mark.parametrize(
    ("fields", "output", "expected"),
    [
        pytest.param(
            {"thinking": {"open_pattern": r"(?:^|<think>\s*)", "close": "</think>"}, "content": ANSWER},
            "hm</think>\n\n<response>\nHi\n</response>\nand <think>\nmore</think>",
            Message("Hi", "hm\nmore"),
            id="the beginning of the message",
        ),
        pytest.param(
            {"thinking": {"open_pattern": r"(?<=\.)<", "close": ">"}, "content": {}},
            "a<b.<hm>",
            Message("a<b.", "hm"),
            id="what is before",
        ),
        pytest.param(
            {"thinking": THINK, "content": ANSWER},
            "<think>hm</think>\n\n<response>\nHi\n\n</response> x",
            Message("Hi", "hm"),
            id="a line break that may be there",
        ),
        pytest.param(
            {"thinking": {"open_pattern": r"<(?!b)", "close": ">"}, "content": {}},
            "<b<hm>",
            Message("<b", "hm"),
            id="what is behind",
        ),
        pytest.param(
            {"thinking": {"open": "[", "close_pattern": "\n\\]"}, "content": {"open_pattern": "\n-"}},
            "[a]b\n]\n-c",
            Message("c", "a]b"),
            id="white space that has to be there",
        ),
        pytest.param(
            {"thinking": {"open": ["<t>", "<t>x"], "close": ["</t>", "</t>x"]}, "content": {}},
            "<t>xhm</t>xHi<t>y</t>z",
            Message("Hi\nz", "hm\ny"),
            id="the longest literal",
        ),
        pytest.param(
            {"thinking": {"open": "<t>", "close_pattern": "x*$|</t>"}, "content": {}},
            "<t>hmx</t>Hi<t>mm xx",
            Message("Hi", "hmx\nmm"),
            id="the end of the output",
        ),
        pytest.param(
            {"role": {"open": "<r>", "close": "</r>"}, "thinking": THINK},
            "<r>assistant</r><think>hm</think>Hi",
            Message("Hi", "hm"),
            id="no place for text that is left over",
        ),
        pytest.param(
            {"thinking": THINK, "content": {"open": "<a>", "close": "</a>"}},
            "x<think>hm</think>y<a> Hi </a>z",
            Message("Hi", "hm"),
            id="left over and of no field",
        ),
        pytest.param(
            {
                "thinking": {**THINK, "content_args": {"strip": False}},
                "content": {"content_args": {"strip": False}},
            },
            "a <think> hm\n</think> b",
            Message("a  b", " hm\n"),
            id="white space that stays",
        ),
        pytest.param(
            {"tool_calls": LISTED, "content": {}},
            '<actions>[{"tool": "f", "with": {"all": {"a": "1"}}}, {"tool": "g", "with": {"all": {}}}]'
            "</actions>",
            Message(calls=[("f", '{"a": "1"}'), ("g", "{}")]),
            id="a list of calls",
        ),
        pytest.param(
            {"tool_calls": LISTED, "content": {}},
            "<actions>[]</actions>ok",
            Message("ok"),
            id="an empty list",
        ),
        pytest.param(
            {"tool_calls": LISTED, "content": {}},
            '<actions>[{"tool": "f"}]</actions>ok',
            Message('<actions>[{"tool": "f"}]</actions>ok'),
            id="a transform of what is not there",
        ),
    ],
)
def test_fields_are_opened_and_closed(fields: dict[str, Any], output: str, expected: Message) -> None:
    given = {
        name: {key: value for key, value in field.items() if value is not None}
        for name, field in fields.items()
    }
    assert parse_with_template(template(**given), CHATML, output) == expected


def test_a_regular_expression_reads_control_tokens_as_text() -> None:
    fields = {"thinking": {"open_pattern": "<.think.>", "close": "</think>"}, "content": {}}
    vocabulary = marked_vocabulary((), ("<|think|>", "<|other|>"))
    vocabulary.manifest = replace(vocabulary.manifest, response_template=template(**fields))
    parsers = load_parsers(vocabulary, "hf", "hf")
    assert parsers is not None
    parser = request_parser(parsers)
    pieces, _ = read_pieces(
        vocabulary, parser.markers, DetokenizerState(), encode(vocabulary, "<|think|>hm</think>Hi<|other|>")
    )
    assert fold(parse_chunks(parser, [pieces])) == Message("Hi<|other|>", "hm")


def test_literals_match_tokens_only_if_the_vocabulary_has_them() -> None:
    fields = {"thinking": THINK, "content": {}}
    parser = request_parser(template_parsers(template(**fields)))
    vocabulary = parser.grammar.vocabulary
    pieces, _ = read_pieces(
        vocabulary,
        parser.markers,
        DetokenizerState(),
        [*encode(vocabulary, "<think>quoting "), *b"</think>", *encode(vocabulary, "</think>Hi")],
    )
    assert fold(parse_chunks(parser, [pieces])) == Message("Hi", "quoting </think>")


@pytest.mark.parametrize(
    ("anchor", "prompt", "expected"),
    [
        pytest.param({"start_anchor": ["A:", "B:"]}, "A:<think>x B:", Message("Hi"), id="one of several"),
        pytest.param({"start_anchor": ["A:", "B:"]}, "B: A:<think>x", Message(reasoning="Hi"), id="the last"),
        pytest.param({"start_anchor_pattern": r"[AB]:"}, "A:<think>B:", Message("Hi"), id="an expression"),
        pytest.param({"start_anchor": "A:"}, "<think>", Message(reasoning="Hi"), id="none, and all is read"),
    ],
)
def test_the_message_begins_after_the_anchor(anchor: dict[str, Any], prompt: str, expected: Message) -> None:
    assert (
        parse_with_template({**anchor, "fields": {"thinking": THINK, "content": {}}}, prompt, "Hi") == expected
    )


def test_ids_of_a_real_tokenizer_are_parsed(layer: Callable[[str], Path], qwen3: Tokenizer) -> None:
    (path,) = find_files(layer("qwen3"))
    for name in ("json", "tags"):
        vocabulary = load(path)
        vocabulary.manifest = replace(vocabulary.manifest, response_template=TEMPLATES[name])
        parsers = load_parsers(vocabulary, "hf", "hf")
        assert parsers is not None
        parser = request_parser(parsers, tools=TOOLS)
        prompt = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n"
        body = {
            "json": '{"name": "get_weather", "arguments": {"city": "東京", "days": 3}}',
            "tags": (
                "<function=get_weather>\n<parameter=city>\n東京\n</parameter>\n"
                "<parameter=days>\n3\n</parameter>\n</function>"
            ),
        }[name]
        output = f"hm 😀\n</think>\n\nSure.\n<tool_call>\n{body}\n</tool_call>"
        ids = qwen3.encode(output, add_special_tokens=False).ids
        state = read_start(parser, qwen3.encode(prompt, add_special_tokens=False).ids).state
        chunks, decoding = [], DetokenizerState(text_started=True)
        for token_id in ids:
            pieces, decoding = read_pieces(vocabulary, parser.markers, decoding, [token_id])
            chunks.append(pieces)
        whole = [[piece for pieces in chunks for piece in pieces]]
        expected = Message("Sure.", "hm 😀", [("get_weather", '{"city": "東京", "days": 3}')])
        assert fold(parse_chunks(parser, chunks, state=state)) == expected
        assert fold(parse_chunks(parser, whole, state=state)) == expected


SLOW: Final = "(?:a|ab|b)*"
"""An expression that takes exponential time."""


@pytest.mark.parametrize(
    ("field", "begun", "ended"),
    [
        pytest.param(
            {"open_pattern": f"<t>(?P<name>{SLOW})!", "close": "</t>", "content": "json"},
            "<t>",
            "{}</t>",
            id="opens",
        ),
        pytest.param(
            {"open_pattern": "<t>(?P<name>f)!", "close_pattern": f"<{SLOW}/t>", "content": "json"},
            "<t>f!{}<",
            "</t>",
            id="closes",
        ),
        pytest.param(
            {
                "open_pattern": "<t>(?P<name>f)!",
                "close": "</t>",
                "content": "xml-inline",
                "content_args": {"tag_pattern": f"<p (?P<key>{SLOW})>(?P<value>x)</p>"},
            },
            "<t>f!<p ",
            "</t>",
            id="content",
        ),
    ],
)
def test_an_output_is_text_from_where_an_expression_takes_too_long(
    monkeypatch: pytest.MonkeyPatch, field: dict[str, Any], begun: str, ended: str
) -> None:
    monkeypatch.setattr(regexes, "TIMEOUT", 0.001)
    parsers = template_parsers(
        template(tool_calls={**field, "transform": NAMED}, content={"close": "<|im_end|>"})
    )
    parser = request_parser(parsers, tools=TOOLS, whole_calls=True)
    output = f"Look: {begun}{'ab' * 40}#{ended} {begun}"
    for chunks in ([[output]], [[output[:50]], [output[50:]]], [[character] for character in output]):
        assert fold(parse_chunks(parser, chunks)) == Message(content=output)


@pytest.mark.parametrize("slow", ["anchor", "field"])
def test_a_prompt_does_not_tell_if_an_expression_takes_too_long(
    monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    monkeypatch.setattr(regexes, "TIMEOUT", 0.001)
    anchor, opens = (f"!{SLOW}#", "<think>") if slow == "anchor" else ("!", f"<{SLOW}think>")
    fields = {"thinking": {"open_pattern": opens, "close": "</think>"}, "content": {"close": "<|im_end|>"}}
    parsers = template_parsers({"start_anchor_pattern": anchor, "fields": fields})
    parser = request_parser(parsers)
    begun = read_start(parser, encode(parser.grammar.vocabulary, f"!{'ab' * 40}<{'ab' * 40}."))
    assert (begun.told, begun.state) == (False, ParserState("answer"))
