"""Response templates, checked."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from derender.parsing import ParserError, load_parsers

from ...support import marked_vocabulary
from .support import TEMPLATES, THINK, template, template_parsers

CALLS = {"open": "a", "content": "json"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (None, "^hf: the layer's tokenizer has no response_template$"),
        (
            {**TEMPLATES["json"], "version": 2},
            r"^hf: response_template: Invalid enum value 2 - at `\$\.version`$",
        ),
        (template(), r"Expected `object` of length >= 1 - at `\$\.fields`"),
        ({**TEMPLATES["json"], "start_anchor": 3}, r"got `int` - at `\$\.start_anchor`"),
        ({**TEMPLATES["json"], "start_anchor": []}, r"Expected `array` of length >= 1 - at `\$\.start_anchor`"),
        ({**TEMPLATES["json"], "oops": 1}, "Object contains unknown field `oops`"),
        ({"fields": {"content": {}}}, "needs start_anchor or start_anchor_pattern"),
        (template(content=3), "field 'content': Expected `object`, got `int`"),
        (template(content={"oops": 1}), "field 'content': Object contains unknown field `oops`"),
        (template(content={"close": [""]}), r"Expected `str` of length >= 1 - at `\$\.close\[0\]`"),
        (
            template(content={"open_pattern": "("}),
            "field 'content': '\\(' is not a valid regular expression",
        ),
        (template(content={"open": "a", "open_pattern": "a"}), "use open or open_pattern, not both"),
        (template(content={"join": "x"}), "join needs repeats"),
        (template(content={"transform_each": True}), "transform_each and groups in patterns need a transform"),
        (template(content={"transform": "x"}), "only tool_calls may have a transform"),
        (
            template(content={}, thinking={}),
            "may have neither open nor open_pattern, got 'content', 'thinking'",
        ),
        (template(tool_calls={"content": "json"}), "field 'tool_calls' needs open or open_pattern"),
        (template(tool_calls={**CALLS, "transform": {"name": "{nope}"}}), "transform uses 'nope'"),
        (template(tool_calls={**CALLS, "transform": "a {content}"}), "transform may not mix a placeholder"),
        (
            template(tool_calls={"open_pattern": "(?P<name>a)"}),
            "groups in patterns need a transform",
        ),
        (template(content={"content": "yaml"}), "content parser must be one of text, .*, got 'yaml'"),
        (template(content={"content": "json", "content_args": {"strip": 1}}), r"json: .* - at `\$\.strip`"),
        (
            template(content={"content": "json", "content_args": {"string_delims": [["a"]]}}),
            r"Expected `array` of length 2, got 1 - at `\$\.string_delims\[0\]`",
        ),
        (
            template(content={"content": "xml-inline"}),
            "xml-inline: Object missing required field `tag_pattern`",
        ),
        (
            template(content={"content": "xml-inline", "content_args": {"tag_pattern": "("}}),
            "xml-inline: '\\(' is not a valid regular expression",
        ),
        (
            template(content={"content": "xml-inline", "content_args": {"tag_pattern": "a"}}),
            "tag_pattern must have a group named 'key'",
        ),
        (
            template(content={"content": "kv-lines", "content_args": {"kv_sep": ""}}),
            r"kv-lines: Expected `str` of length >= 1 - at `\$\.kv_sep`",
        ),
        (
            template(content={"content": "kv-lines", "content_args": {"value_parser": {"name": "x"}}}),
            r"kv-lines: content parser must be one of .*, got 'x' - at `\$\.value_parser`",
        ),
    ],
)
def test_a_malformed_template_is_refused(given: dict[str, Any] | None, problem: str) -> None:
    with pytest.raises(ParserError, match=problem):
        template_parsers(given)


def test_defaults_and_keys_that_parsing_does_not_need_are_accepted() -> None:
    given = {
        **template(thinking={**THINK, "optional": True, "repeats": True, "join": "\n"}),
        "defaults": {"role": "x"},
    }
    template_parsers(given)


def test_a_template_may_name_as_many_tokens_as_there_are_characters_for_markers() -> None:
    tokens = [f"<{number}>" for number in range(2049)]
    vocabulary = marked_vocabulary(tokens)
    vocabulary.manifest = replace(
        vocabulary.manifest, response_template=template(thinking={"open": tokens, "close": ">"})
    )
    with pytest.raises(ParserError, match="names 2049 added tokens, at most 2048 can be markers"):
        load_parsers(vocabulary, "hf", "hf")
