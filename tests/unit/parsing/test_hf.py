"""Formats that tokenizers describe themselves: response templates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace

from derender.decoding.detokenizer import DetokenizerState
from derender.decoding.pieces import read_pieces
from derender.parsing import ParserError, Parsers, load_parsers, start
from derender.parsing.patterns import Match, Regex
from derender.parsing.patterns.regexes import RegexScanner
from derender.vocabulary import find_files, load
from tests.support.parsers import request_parser

from .support import TOOLS, Said, encoded, events_of, joined, splits, with_markers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tokenizers import Tokenizer

    from derender.parsing.patterns import Pattern

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
        parser = request_parser(parsers_of(template), tools=TOOLS, whole_calls=whole_calls)
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
        ({"version": 2}, r"Invalid enum value 2 - at `\$.version`"),
        ({"fields": {}}, r"Expected `object` of length >= 1 - at `\$.fields`"),
        ({"start_anchor": 3}, r"Expected `str \| array \| null`, got `int` - at `\$.start_anchor`"),
        ({"oops": 1}, "unknown field `oops`"),
        ({"fields": {"content": {"oops": 1}}}, "field 'content': Object contains unknown field `oops`"),
        ({"fields": {"content": {"open_pattern": "("}}}, "open_pattern is not a valid regular expression"),
        ({"fields": {"content": {"open": "a", "open_pattern": "a"}}}, "use open or open_pattern, not both"),
        (
            {"fields": {"content": {"open": "a", "content": "yaml"}}},
            "content parser must be one of .*, got 'yaml'",
        ),
        ({"fields": {"content": {}, "thinking": {}}}, "only one field"),
        ({"fields": {"tool_calls": {"content": "json"}}}, "needs open or open_pattern"),
        (
            {"fields": {"tool_calls": {"open": "a", "transform": {"name": "{nope}"}}}},
            "uses 'nope', which is neither content nor a group",
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
    with pytest.raises(ParserError, match="it can't be combined with"):
        load_parsers(vocabulary, tools, reasoning)


@pytest.mark.parametrize("pattern", ["", "$", "(?=x)", "x*", "(?:)"])
def test_patterns_of_no_width_come_to_an_end(pattern: str) -> None:
    template = {
        "start_anchor": CHATML,
        "fields": {"thinking": {"open_pattern": pattern, "close_pattern": pattern}, "content": {}},
    }
    result = said(template, CHATML, "a xx b")
    assert len(result.content + result.reasoning) <= len("a xx b")


ANSWER: Final = {"open": "<response>\n", "close_pattern": r"\n?</response>"}
LISTED: Final = {
    "open": "<actions>",
    "close": "</actions>",
    "content": "json",
    "transform_each": True,
    "transform": {"type": "function", "function": {"name": "{tool}", "arguments": "{with.all}"}},
}


def template(**fields: Any) -> dict[str, Any]:
    return {"start_anchor": CHATML, "fields": fields}


@pytest.mark.parametrize(
    ("fields", "output", "expected"),
    [
        pytest.param(
            {"thinking": {"open_pattern": r"(?:^|<think>\s*)", "close": "</think>"}, "content": ANSWER},
            "hm</think>\n\n<response>\nHi\n</response>\nand <think>\nmore</think>",
            Said("Hi", "hmmore", []),
            id="the beginning of the message",
        ),
        pytest.param(
            {"thinking": {"open_pattern": r"(?<=\.)<", "close": ">"}, "content": {}},
            "a<b.<hm>",
            Said("a<b.", "hm", []),
            id="what is before",
        ),
        pytest.param(
            {"thinking": THINK, "content": ANSWER},
            "<think>hm</think>\n\n<response>\nHi\n\n</response> x",
            Said("Hi", "hm", []),
            id="a line break that may be there",
        ),
        pytest.param(
            {"thinking": {"open_pattern": r"<(?!b)", "close": ">"}, "content": {}},
            "<b<hm>",
            Said("<b", "hm", []),
            id="what is behind",
        ),
        pytest.param(
            {"thinking": {"open": "[", "close_pattern": "\n\\]"}, "content": {"open_pattern": "\n-"}},
            "[a]b\n]\n-c",
            Said("c", "a]b", []),
            id="white space that has to be there",
        ),
        pytest.param(
            {"thinking": {"open": ["<t>", "<t>x"], "close": ["</t>", "</t>x"]}, "content": {}},
            "<t>xhm</t>xHi<t>y</t>z",
            Said("Hiz", "hmy", []),
            id="the longest literal",
        ),
        pytest.param(
            {"thinking": {"open": "<t>", "close_pattern": "x*$|</t>"}, "content": {}},
            "<t>hmx</t>Hi<t>mm xx",
            Said("Hi", "hmxmm", []),
            id="the end of the output",
        ),
        pytest.param(
            {"role": {"open": "<r>", "close": "</r>"}, "thinking": THINK},
            "<r>assistant</r><think>hm</think>Hi",
            Said("Hi", "hm", []),
            id="no place for text that is left over",
        ),
        pytest.param(
            {"thinking": THINK, "content": {"open": "<a>", "close": "</a>"}},
            "x<think>hm</think>y<a> Hi </a>z",
            Said("Hi", "hm", []),
            id="left over and of no field",
        ),
        pytest.param(
            {
                "thinking": {**THINK, "content_args": {"strip": False}},
                "content": {"content_args": {"strip": False}},
            },
            "a <think> hm\n</think> b",
            Said("a  b", " hm\n", []),
            id="white space that stays",
        ),
        pytest.param(
            {"tool_calls": LISTED, "content": {}},
            '<actions>[{"tool": "f", "with": {"all": {"a": "1"}}}, {"tool": "g", "with": {"all": {}}}]'
            "</actions>",
            Said("", "", [("f", '{"a": "1"}'), ("g", "{}")]),
            id="a list of calls",
        ),
        pytest.param(
            {"tool_calls": LISTED, "content": {}},
            "<actions>[]</actions>ok",
            Said("ok", "", []),
            id="an empty list",
        ),
        pytest.param(
            {"tool_calls": LISTED, "content": {}},
            '<actions>[{"tool": "f"}]</actions>ok',
            Said('<actions>[{"tool": "f"}]</actions>ok', "", []),
            id="a transform of what is not there",
        ),
    ],
)
def test_what_opens_and_closes(fields: dict[str, Any], output: str, expected: Said) -> None:
    given = {
        name: {key: value for key, value in field.items() if value is not None}
        for name, field in fields.items()
    }
    assert said(template(**given), CHATML, output) == expected


def test_a_regular_expression_reads_control_tokens_as_text() -> None:
    fields = {"thinking": {"open_pattern": "<.think.>", "close": "</think>"}, "content": {}}
    vocabulary = with_markers((), ("<|think|>", "<|other|>"))
    vocabulary.manifest = replace(vocabulary.manifest, response_template=template(**fields))
    parsers = load_parsers(vocabulary, "hf", "hf")
    assert parsers is not None
    parser = request_parser(parsers)
    pieces, _ = read_pieces(
        vocabulary, parser.markers, DetokenizerState(), encoded(vocabulary, "<|think|>hm</think>Hi<|other|>")
    )
    assert joined(events_of(parser, [pieces])) == Said("Hi<|other|>", "hm", [])


def test_literals_that_are_tokens_are_those_tokens() -> None:
    fields = {"thinking": THINK, "content": {}}
    parser = request_parser(parsers_of(template(**fields)))
    vocabulary = parser.grammar.vocabulary
    pieces, _ = read_pieces(
        vocabulary,
        parser.markers,
        DetokenizerState(),
        [*encoded(vocabulary, "<think>quoting "), *b"</think>", *encoded(vocabulary, "</think>Hi")],
    )
    assert joined(events_of(parser, [pieces])) == Said("Hi", "quoting </think>", [])


@pytest.mark.parametrize(
    ("anchor", "prompt", "expected"),
    [
        pytest.param({"start_anchor": ["A:", "B:"]}, "A:<think>x B:", Said("Hi", "", []), id="one of several"),
        pytest.param({"start_anchor": ["A:", "B:"]}, "B: A:<think>x", Said("", "Hi", []), id="the last"),
        pytest.param({"start_anchor_pattern": r"[AB]:"}, "A:<think>B:", Said("Hi", "", []), id="an expression"),
        pytest.param({"start_anchor": "A:"}, "<think>", Said("", "Hi", []), id="none, and all is read"),
    ],
)
def test_the_message_begins_behind_the_anchor(anchor: dict[str, Any], prompt: str, expected: Said) -> None:
    assert said({**anchor, "fields": {"thinking": THINK, "content": {}}}, prompt, "Hi") == expected


@pytest.mark.parametrize(
    ("content", "arguments", "body", "expected"),
    [
        ("json", {}, '{"a": "\\ud83d\\ude00 \\ud800", "b": 1e2}', '{"a": "😀 \\ud800", "b": 100.0}'),
        (
            "json",
            {"unquoted_keys": True},
            '{a: "x, b: 1", c : [{d:null}]}',
            '{"a": "x, b: 1", "c": [{"d": null}]}',
        ),
        (
            "json",
            {"string_delims": [["<<", ">>"], ["'", "'"]]},
            """{"a": <<it's "x">>, 'b': 'c'}""",
            '{"a": "it\'s \\"x\\"", "b": "c"}',
        ),
        ("text", {}, ' {"a":1} ', '{"a":1}'),
        ("kv-lines", {"kv_sep": "=", "line_sep": ";"}, "a = 1=2; ;b", '{"a": "1=2"}'),
        (
            "kv-lines",
            {"value_parser": {"name": "json", "args": {"allow_non_json": True}}},
            "a: 1\nb: x",
            '{"a": 1, "b": "x"}',
        ),
        ("kv-lines", {"value_parser": {"name": "float"}}, "a: 1.50", '{"a": 1.5}'),
        ("kv-lines", {"value_parser": {"name": "bool"}}, "a: True\nb: no", '{"a": true, "b": false}'),
        (
            "xml-inline",
            {"tag_pattern": r"<(?P<key>\w+)>(?P<value>.*?)</(?P=key)>", "merge_duplicates": True},
            "<a>1</a><b>\n2</b><a>x</a>",
            '{"a": ["1", "x"], "b": "\\n2"}',
        ),
    ],
)
def test_a_body_is_read(content: str, arguments: dict[str, Any], body: str, expected: str) -> None:
    calls = {
        "open_pattern": r"call:(?P<name>\w+)\|",
        "close": "$",
        "content": content,
        "content_args": arguments,
        "transform": NAMED,
    }
    assert said(template(tool_calls=calls, content={}), CHATML, f"call:f|{body}$").calls == [("f", expected)]


@pytest.mark.parametrize(
    ("content", "body"),
    [
        ("json", '{"a": NaN}'),
        ("json", '{"a": 1e999}'),
        ("json", '{"a":' * 2000 + "1" + "}" * 2000),
        ("json", "[" * 100_000),
        ("json", f'{{"a": {"9" * 5000}}}'),
        ("json", '"a"'),
        ("int", "1"),
        ("int", "x"),
        ("text", "{"),
        ("text", "[1]"),
    ],
)
def test_a_body_that_can_not_be_read_is_content(content: str, body: str) -> None:
    calls = {"open_pattern": r"call:(?P<name>\w+)\|", "close": "$", "content": content, "transform": NAMED}
    parser = request_parser(parsers_of(template(tool_calls=calls, content={})), tools=TOOLS)
    output = f"call:f|{body}$"
    assert joined(events_of(parser, [[output]])) == Said(output, "", [])


def test_strings_have_the_type_that_the_schema_says() -> None:
    calls = {"open_pattern": r"call:(?P<name>\w+)\|", "close": "$", "content": "json", "transform": NAMED}
    body = {"city": "7", "days": "3", "exact": "True", "where": '{"a": 1}', "until": "null", "more": "5"}
    ((_, arguments),) = said(
        template(tool_calls=calls, content={}), CHATML, f"call:get_weather|{json.dumps(body)}$"
    ).calls
    assert json.loads(arguments) == {
        **body,
        "days": 3,
        "exact": True,
        "where": {"a": 1},
        "until": None,
    }


@pytest.mark.parametrize("reasoning", ["", "<think>hm</think>\n\n"])
def test_forced_calls_are_bare(reasoning: str) -> None:
    parser = request_parser(parsers_of(TEMPLATES["json"]), tools=TOOLS, tool_choice="required")
    vocabulary = parser.grammar.vocabulary
    output = f'{reasoning}[{{"name": "get_time", "parameters": {{}}}}]'
    pieces, _ = read_pieces(vocabulary, parser.markers, DetokenizerState(), encoded(vocabulary, output))
    for chunks in splits(pieces):
        assert joined(events_of(parser, chunks)).calls == [("get_time", "{}")]


def test_calls_that_are_not_wanted_are_text() -> None:
    parser = request_parser(parsers_of(TEMPLATES["tags"]), tools=TOOLS, tool_choice="none")
    output = "Hi <tool_call>\n<function=get_time>\n</function>\n</tool_call>"
    for chunks in splits([output]):
        said_text = joined(events_of(parser, chunks))
        assert said_text.calls == []
        assert "<function=get_time>" in said_text.content


def test_one_call_of_several() -> None:
    parser = request_parser(
        parsers_of(template(tool_calls=LISTED, content={})), tools=TOOLS, parallel_tool_calls=False
    )
    body = '[{"tool": "f", "with": {"all": {}}}, {"tool": "g", "with": {"all": {}}}]'
    output = f"<actions>{body}</actions><actions>{body}</actions>"
    for chunks in splits([output]):
        assert joined(events_of(parser, chunks)) == Said("", "", [("f", "{}")])


def test_ids_of_a_real_tokenizer(layer: Callable[[str], Path], qwen3: Tokenizer) -> None:
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
        state = start(parser, qwen3.encode(prompt, add_special_tokens=False).ids)
        chunks, decoding = [], DetokenizerState(text_started=True)
        for token_id in ids:
            pieces, decoding = read_pieces(vocabulary, parser.markers, decoding, [token_id])
            chunks.append(pieces)
        whole = [[piece for pieces in chunks for piece in pieces]]
        expected = Said("Sure.", "hm 😀", [("get_weather", '{"city": "東京", "days": 3}')])
        assert joined(events_of(parser, chunks, state=state)) == expected
        assert joined(events_of(parser, whole, state=state)) == expected


@pytest.mark.parametrize(
    ("patterns", "text", "expected"),
    [
        pytest.param(["ab"], "xxab", (2, None), id="whole, and more may follow"),
        pytest.param(["ab"], "xxabc", (2, 0), id="whole"),
        pytest.param(["ab"], "xa", (1, None), id="begun"),
        pytest.param(["ab"], "xx", (2, None), id="nothing"),
        pytest.param([r"a\s*"], "a  ", (0, None), id="it may grow"),
        pytest.param([r"a\s*"], "a  b", (0, 0), id="it can't grow"),
        pytest.param(["abcd|b"], "xabc", (1, None), id="what begins before it may come"),
        pytest.param(["abcd|b"], "xabe", (2, 0), id="what begins before it does not come"),
        pytest.param(["ac.*?d|ab"], "acxdx", (0, 0), id="the first end counts"),
        pytest.param(["a(?=bc)"], "xab", (1, None), id="what follows is begun"),
        pytest.param(["a(?!bc)"], "xab", (1, None), id="what must not follow is begun"),
        pytest.param(["a", "ab"], "abx", (0, 1), id="the longer"),
        pytest.param(["b", "abc"], "ab", (0, None), id="another begins before it"),
        pytest.param(["a.*c"], "a" + "x" * 5000, (0, None), id="longer than what is searched at first"),
        pytest.param(["ab"], "x" * 5000 + "aba", (5000, 0), id="behind what is searched at first"),
        pytest.param([(">",)], "x>", (1, 0), id="a literal needs no more"),
    ],
)
def test_matches_count_once_nothing_changes_them(
    patterns: list[str | Pattern], text: str, expected: tuple[int, int | None]
) -> None:
    scanner = RegexScanner([Regex(each) if isinstance(each, str) else each for each in patterns], {})
    found = scanner.search(text, 0)
    assert found is not None
    assert (found.start, found.pattern) == expected


def test_a_match_has_its_groups() -> None:
    scanner = RegexScanner([Regex(r"(?P<name>\w+)\((?:(?P<other>x)|y)\1")], {})
    assert scanner.search("f(yf!", 0) == Match(0, 4, 0, {"name": "f"})
    assert scanner.search("f(yf", 0, final=True) == Match(0, 4, 0, {"name": "f"})
    assert scanner.search("f(yg", 0, final=True) is None
