"""Formats that tokenizers describe themselves: response templates."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from msgspec.structs import replace

from derender.detokenizer import DetokenizerState
from derender.parsing import ParserError, Parsers, load_parsers, read_pieces, start

from .support import TOOLS, Said, encoded, events_of, joined, splits, with_markers

CALL: Final = {"type": "function", "function": "{content}"}
NAMED: Final = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
THINK: Final = {"open": "<think>", "close": "</think>"}
TEMPLATES: Final[dict[str, dict[str, Any]]] = {
    "json": {
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {
            "reasoning_content": THINK,
            "tool_calls": {
                "open": "<tool_call>",
                "close": "</tool_call>",
                "repeats": True,
                "content": "json",
                "transform": CALL,
            },
            "content": {"close": ["<|im_end|>", "<|endoftext|>"]},
        },
    },
    "channels": {
        "start_anchor": "<|start|>assistant",
        "fields": {
            "thinking": {
                "open_pattern": r"<\|channel\|>analysis<\|message\|>",
                "close_pattern": r"<\|end\|>(?:<\|start\|>assistant)?",
            },
            "content": {"open": "<|channel|>final<|message|>", "close": ["<|end|>", "<|return|>"]},
            "tool_calls": {
                "open_pattern": r"\s*to=functions\.(?P<name>\w+)<\|channel\|>commentary"
                r"(?:\s*(?:<\|constrain\|>)?json)?<\|message\|>",
                "close": ["<|call|>", "<|end|>"],
                "repeats": True,
                "content": "json",
                "transform": NAMED,
            },
        },
    },
    "dialect": {
        "start_anchor": "<|turn>model\n",
        "fields": {
            "thinking": {"open": "<|channel>thought\n", "close": "<channel|>"},
            "tool_calls": {
                "open_pattern": r"<\|tool_call>call:(?P<name>[^{]+)",
                "close": "<tool_call|>",
                "repeats": True,
                "content": "json",
                "content_args": {"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
                "transform": NAMED,
            },
            "content": {"close": "<turn|>"},
        },
    },
    "tags": {
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {
            "reasoning_content": THINK,
            "tool_calls": {
                "open_pattern": r"<tool_call>\s*<function=(?P<name>[^>]+)>",
                "close_pattern": r"</function>\s*</tool_call>",
                "repeats": True,
                "content": "xml-inline",
                "content_args": {"tag_pattern": r"<parameter=(?P<key>[^>]+)>\n?(?P<value>.*?)\n?</parameter>"},
                "transform": NAMED,
            },
            "content": {"close": "<|im_end|>"},
        },
    },
    "lines": {
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {
            "tool_calls": {
                "open_pattern": r"<tool_call>(?P<name>\w+)\n",
                "close": "</tool_call>",
                "repeats": True,
                "content": "kv-lines",
                "transform": NAMED,
            },
            "content": {"close": "<|im_end|>"},
        },
    },
}
MARKERS: Final = (
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>",
    "<|start|>", "<|end|>", "<|return|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>",
    "<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>',
)  # fmt: skip
CHATML: Final = "<|im_start|>assistant\n"


def parsers_of(template: object) -> Parsers:
    """The parsers of a vocabulary that carries a template."""
    vocabulary = with_markers(MARKERS)
    vocabulary.manifest = replace(vocabulary.manifest, response_template=template)
    parsers = load_parsers(vocabulary, "hf", "hf")
    assert parsers is not None
    return parsers


def said(template: object, prompt: str, output: str, *, cut: bool = False) -> Said:
    """What an output says, which is the same however it is cut into pieces, and in both modes."""
    results = []
    for whole_calls in (True, False):
        parser = parsers_of(template).for_request(tools=TOOLS, whole_calls=whole_calls)
        vocabulary = parser.grammar.vocabulary
        pieces, _ = read_pieces(vocabulary, parser.markers, DetokenizerState(), encoded(vocabulary, output))
        state = start(parser, encoded(vocabulary, prompt))
        results += [joined(events_of(parser, chunks, cut=cut, state=state)) for chunks in splits(pieces)]
    assert all(result == results[0] for result in results)
    return results[0]


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
                'Sure.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "a", "days": 2}}\n</tool_call>\n'
                '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'
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
def test_a_template_is_read(
    template: str, prompt: str, output: str, content: str, reasoning: str, calls: list[tuple[str, object]]
) -> None:
    result = said(TEMPLATES[template], prompt, output)
    assert (result.content, result.reasoning) == (content, reasoning)
    assert [(name, json.loads(arguments)) for name, arguments in result.calls] == calls


@pytest.mark.parametrize("body", ["oops", "[1]", '{"arguments": {}}', '{"name": "f", "arguments": [1]}'])
def test_what_is_no_call_is_content(body: str) -> None:
    output = f"<tool_call>{body}</tool_call>"
    assert said(TEMPLATES["json"], CHATML, output) == Said(output, "", [])


def test_a_call_that_is_cut_is_none() -> None:
    output = '<tool_call>{"name": "get_time", "arguments": {}}'
    assert said(TEMPLATES["json"], CHATML, output, cut=True).calls == []
    assert said(TEMPLATES["json"], CHATML, output).calls == [("get_time", "{}")]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (None, "no response_template"),
        ({"version": 2}, "version 2"),
        ({"fields": {}}, "no fields"),
        ({"start_anchor": 3}, "start_anchor is 3"),
        ({"oops": 1}, "'oops' is not known"),
        ({"fields": {"content": {"oops": 1}}}, "field 'content': 'oops' is not known"),
        ({"fields": {"content": {"open_pattern": "("}}}, "open_pattern is no regular expression"),
        ({"fields": {"content": {"open": "a", "open_pattern": "a"}}}, "both open and open_pattern"),
        ({"fields": {"content": {"open": "a", "content": "yaml"}}}, "no content parser 'yaml'"),
        ({"fields": {"content": {}, "thinking": {}}}, "only one field"),
        ({"fields": {"tool_calls": {"content": "json"}}}, "neither open nor open_pattern"),
        (
            {"fields": {"tool_calls": {"open": "a", "transform": {"name": "{nope}"}}}},
            "'nope' is neither content nor a group",
        ),
    ],
)
def test_a_template_that_is_none_is_refused(change: dict[str, Any] | None, problem: str) -> None:
    template = None if change is None else {**TEMPLATES["json"], **change}
    with pytest.raises(ParserError, match=problem):
        parsers_of(template)


@pytest.mark.parametrize(("tools", "reasoning"), [("hf", "qwen3"), ("hermes", "hf")])
def test_it_goes_with_no_other(tools: str, reasoning: str) -> None:
    vocabulary = with_markers(MARKERS)
    vocabulary.manifest = replace(vocabulary.manifest, response_template=TEMPLATES["json"])
    with pytest.raises(ParserError, match="does not go with"):
        load_parsers(vocabulary, tools, reasoning)


@pytest.mark.parametrize("pattern", ["", "$", "(?=x)", "x*", "(?:)"])
def test_patterns_of_no_width_come_to_an_end(pattern: str) -> None:
    template = {
        "start_anchor": CHATML,
        "fields": {"thinking": {"open_pattern": pattern, "close_pattern": pattern}, "content": {}},
    }
    result = said(template, CHATML, "a xx b")
    assert len(result.content + result.reasoning) <= len("a xx b")
