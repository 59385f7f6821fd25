"""Content parsers."""

from __future__ import annotations

from typing import Any

import pytest

from derender.parsing.arguments.notation import MAX_DEPTH
from tests.support.engine import parse_chunks
from tests.support.parsers import Message, fold, request_parser

from ...support import TOOLS
from .support import (
    CHATML,
    NAMED,
    parse_with_template,
    template,
    template_parsers,
)


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
        ("kv-lines", {"kv_sep": "=", "line_sep": ";"}, "a = 1=2; ;", '{"a": "1=2"}'),
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
        (
            "xml-inline",
            {"tag_pattern": r"<(?P<key>\w+)>(?P<value>.*?)</\w+>", "value_parser": {"name": "json"}},
            "<a>1</a><a>[2]</a>",
            '{"a": [2]}',
        ),
        (
            "xml-inline",
            {"tag_pattern": r"<(?P<key>\w+)>(?P<value>.*?)</\w+>", "merge_duplicates": True},
            "<a>1</a><a>2</a><a>3</a>",
            '{"a": ["1", "2", "3"]}',
        ),
    ],
)
def test_contents_are_parsed(content: str, arguments: dict[str, Any], body: str, expected: str) -> None:
    calls = {
        "open_pattern": r"call:(?P<name>\w+)\|",
        "close": "$",
        "content": content,
        "content_args": arguments,
        "transform": NAMED,
    }
    assert parse_with_template(template(tool_calls=calls, content={}), CHATML, f"call:f|{body}$").calls == [
        ("f", expected)
    ]


@pytest.mark.parametrize(
    ("content", "body"),
    [
        ("json", '{"a": NaN}'),
        ("json", '{"a": 1e999}'),
        ("json", '{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1)),
        ("json", '{"a":' * 2000 + "1" + "}" * 2000),
        ("json", "[" * 100_000),
        ("json", f'{{"a": {"9" * 5000}}}'),
        ("json", '"a"'),
        ("int", "1"),
        ("int", "x"),
        ("text", "{"),
        ("text", "[1]"),
        ("kv-lines", "a: 1\nb"),
    ],
)
def test_unreadable_contents_of_calls_are_content(content: str, body: str) -> None:
    calls = {"open_pattern": r"call:(?P<name>\w+)\|", "close": "$", "content": content, "transform": NAMED}
    parser = request_parser(template_parsers(template(tool_calls=calls, content={})), tools=TOOLS)
    output = f"call:f|{body}$"
    assert fold(parse_chunks(parser, [[output]])) == Message(output)


def test_json_may_be_nested_as_deep_as_arguments() -> None:
    calls = {"open_pattern": r"call:(?P<name>\w+)\|", "close": "$", "content": "json", "transform": NAMED}
    body = f'{{"a": {"[" * (MAX_DEPTH - 1)}"[\\"["{"]" * (MAX_DEPTH - 1)}}}'
    parsed = parse_with_template(template(tool_calls=calls, content={}), CHATML, f"call:f|{body}$")
    assert parsed == Message(calls=[("f", body)])


@pytest.mark.parametrize("body", ["<>", "x<a>", "<a>x", "<a>x<a>"])
def test_tags_without_a_key_or_with_text_beside_them_are_content(body: str) -> None:
    calls = {
        "open": "[",
        "close": "]",
        "content": "xml-inline",
        "content_args": {"tag_pattern": "<(?P<key>a)?>"},
        "transform": {"name": "f", "arguments": "{content}"},
    }
    parser = request_parser(template_parsers(template(tool_calls=calls, content={})), tools=TOOLS)
    assert fold(parse_chunks(parser, [[f"[{body}]"]])) == Message(f"[{body}]")
