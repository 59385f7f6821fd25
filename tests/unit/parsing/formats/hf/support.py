"""Response templates, and outputs parsed with them."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from derender.decoding.pieces import read_pieces
from derender.decoding.state import DetokenizerState
from derender.parsing import Parsers, load_parsers, read_start
from tests.support.engine import parse_chunks
from tests.support.parsers import Message, fold, request_parser

from ...support import TOOLS, encode, marked_vocabulary, split_pieces

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
LISTED: Final = {
    "open": "<actions>",
    "close": "</actions>",
    "content": "json",
    "transform_each": True,
    "transform": {"type": "function", "function": {"name": "{tool}", "arguments": "{with.all}"}},
}


def template_parsers(template: object) -> Parsers:
    """Return the parsers of a vocabulary that carries a template."""
    vocabulary = marked_vocabulary(MARKERS)
    vocabulary.manifest = replace(vocabulary.manifest, response_template=template)
    parsers = load_parsers(vocabulary, "hf", "hf")
    assert parsers is not None
    return parsers


def parse_with_template(template: object, prompt: str, output: str, *, cut: bool = False) -> Message:
    """Parse an output, and check that any split and both ways to emit calls give the same."""
    results = []
    for whole_calls in (True, False):
        parser = request_parser(template_parsers(template), tools=TOOLS, whole_calls=whole_calls)
        vocabulary = parser.grammar.vocabulary
        pieces, _ = read_pieces(vocabulary, parser.markers, DetokenizerState(), encode(vocabulary, output))
        state = read_start(parser, encode(vocabulary, prompt)).state
        results += [fold(parse_chunks(parser, chunks, cut=cut, state=state)) for chunks in split_pieces(pieces)]
    assert all(result == results[0] for result in results)
    return results[0]


def template(**fields: Any) -> dict[str, Any]:
    """Return a template with these fields."""
    return {"start_anchor": CHATML, "fields": fields}
