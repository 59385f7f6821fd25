"""Calls that response templates describe."""

from __future__ import annotations

import json

import pytest

from derender.decoding.pieces import read_pieces
from derender.decoding.state import DetokenizerState
from tests.support.engine import parse_chunks
from tests.support.parsers import Message, fold, request_parser

from ...support import TOOLS, encode, split_pieces
from .support import (
    CHATML,
    LISTED,
    NAMED,
    TEMPLATES,
    parse_with_template,
    template,
    template_parsers,
)


@pytest.mark.parametrize("body", ["oops", "[1]", '{"arguments": {}}', '{"name": "f", "arguments": [1]}'])
def test_malformed_calls_are_content(body: str) -> None:
    output = f"<tool_call>{body}</tool_call>"
    assert parse_with_template(TEMPLATES["json"], CHATML, output) == Message(output)


def test_a_truncated_call_is_dropped() -> None:
    output = '<tool_call>{"name": "get_time", "arguments": {}}'
    assert parse_with_template(TEMPLATES["json"], CHATML, output, cut=True).calls == []
    assert parse_with_template(TEMPLATES["json"], CHATML, output).calls == [("get_time", "{}")]


def test_strings_are_converted_to_the_types_of_the_schema() -> None:
    calls = {"open_pattern": r"call:(?P<name>\w+)\|", "close": "$", "content": "json", "transform": NAMED}
    body = {"city": "7", "days": "3", "exact": "True", "where": '{"a": 1}', "until": "null", "more": "5"}
    ((_, arguments),) = parse_with_template(
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
def test_forced_calls_may_be_bare(reasoning: str) -> None:
    parser = request_parser(template_parsers(TEMPLATES["json"]), tools=TOOLS, tool_choice="required")
    vocabulary = parser.grammar.vocabulary
    output = f'{reasoning}[{{"name": "get_time", "parameters": {{}}}}]'
    pieces, _ = read_pieces(vocabulary, parser.markers, DetokenizerState(), encode(vocabulary, output))
    for chunks in split_pieces(pieces):
        assert fold(parse_chunks(parser, chunks)).calls == [("get_time", "{}")]


def test_unwanted_calls_are_text() -> None:
    parser = request_parser(template_parsers(TEMPLATES["tags"]), tools=TOOLS, tool_choice="none")
    output = "Hi <tool_call>\n<function=get_time>\n</function>\n</tool_call>"
    for chunks in split_pieces([output]):
        message = fold(parse_chunks(parser, chunks))
        assert message.calls == []
        assert "<function=get_time>" in message.content


def test_only_the_first_call_is_kept_without_parallel_calls() -> None:
    parser = request_parser(
        template_parsers(template(tool_calls=LISTED, content={})), tools=TOOLS, parallel_tool_calls=False
    )
    body = '[{"tool": "f", "with": {"all": {}}}, {"tool": "g", "with": {"all": {}}}]'
    output = f"<actions>{body}</actions><actions>{body}</actions>"
    for chunks in split_pieces([output]):
        assert fold(parse_chunks(parser, chunks)) == Message(calls=[("f", "{}")])


@pytest.mark.parametrize(
    ("transform", "content", "arguments"),
    [
        pytest.param(None, '{"name": "f", "arguments": {"a": 1}}', '{"a": 1}', id="no transform"),
        pytest.param(None, '{"name": "f", "parameters": {"a": 1}}', '{"a": 1}', id="parameters"),
        pytest.param(None, '{"name": "f"}', "{}", id="no arguments"),
        pytest.param(
            None,
            '{"function": {"name": "f", "arguments": "{\\"a\\": 1}"}}',
            '{"a": 1}',
            id="arguments as a string",
        ),
        pytest.param([{"name": "f", "arguments": "{content}"}], '{"a": 1}', '{"a": 1}', id="a list"),
        pytest.param({"name": "f", "arguments": {"a": ["{content}"]}}, "1", '{"a": [1]}', id="a list inside"),
    ],
)
def test_calls_are_made_of_values(transform: object, content: str, arguments: str) -> None:
    calls = {"open": "[", "close": "]$", "content": "json", "transform": transform}
    assert parse_with_template(template(tool_calls=calls, content={}), CHATML, f"[{content}]$").calls == [
        ("f", arguments)
    ]


@pytest.mark.parametrize("content", ["1", "[1]", '{"tool": "f"}'])
def test_a_transform_of_each_item_needs_a_list_of_objects(content: str) -> None:
    output = f"<actions>{content}</actions>"
    assert parse_with_template(template(tool_calls=LISTED, content={}), CHATML, output) == Message(output)


def test_several_values_of_one_key_are_each_of_the_schemas_type() -> None:
    tags = r"<(?P<key>\w+)>(?P<value>.*?)</\w+>"
    calls = {
        "open_pattern": r"call:(?P<name>\w+)\|",
        "close": "$",
        "content": "xml-inline",
        "content_args": {"tag_pattern": tags, "merge_duplicates": True},
        "transform": NAMED,
    }
    output = "call:get_weather|<days>1</days><days>2</days><days>x</days><city>3</city>$"
    message = parse_with_template(template(tool_calls=calls, content={}), CHATML, output)
    assert message.calls == [("get_weather", '{"days": [1, 2, "x"], "city": "3"}')]
