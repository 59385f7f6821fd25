"""The work of parsing is linear in an output, whole and in chunks, for each parser and whatever it repeats."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.parsing import dump_state, finish, load_state, parse, read_start
from tests.support.parsers import request_parser
from tests.support.work import growth
from tests.unit.parsing.formats.hf.support import TEMPLATES, template_parsers
from tests.unit.parsing.support import (
    REASONING_NAMES,
    TOOL_NAMES,
    TOOLS,
    combine,
    marked_parsers,
    to_pieces,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from derender.decoding.pieces import Piece
    from derender.parsing import Parser, Parsers

MORE: Final = 1.125
"""Twice the output may take a little more than twice the work: what is read in windows ends in them."""
SIZES: Final = (2_400, 4_800)
"""Characters of the outputs. The smaller is longer than what waits for its end."""
CHUNK: Final = 60
"""Characters of a chunk."""
REPEATED: Final = {
    "blanks": " ",
    "line breaks": "\n",
    "words": "la ",
    "braces": "{",
    "brackets": "[",
    "closing braces": "}",
    "lists in objects": '{"a": [',
    "quotes": '"',
    "backslashes": "\\",
    "angles": "<",
    "items": "1, ",
    "members": '"k": 1, ',
    "a long string": "x",
}
"""What outputs repeat, besides markers."""


def parsers() -> Iterator[tuple[str, Parsers, tuple[str, ...]]]:
    """Yield each parser, with the texts of its markers."""
    for tools in TOOL_NAMES:
        reasoning = tools if combine(tools, tools) and tools in REASONING_NAMES else None
        found = marked_parsers(tools, reasoning)
        yield tools, found, tuple(sorted(found.markers))
    for reasoning in REASONING_NAMES:
        found = marked_parsers(None, reasoning)
        yield f"reasoning of {reasoning}", found, tuple(sorted(found.markers))
    for name, template in TEMPLATES.items():
        yield f"hf, {name}", template_parsers(template), ()


OPENINGS: Final = {
    "deepseek_v3": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n",
    "hermes": '<tool_call>\n{"name": "get_weather", "arguments": ',
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
    "<|tool_call_argument_begin|>",
    "llama3_json": '{"name": "get_weather", "parameters": ',
    "mistral": "[TOOL_CALLS]get_weather[ARGS]",
    "pythonic": "[get_weather(city=",
    "qwen3_xml": "<tool_call>\n<function=get_weather>\n<parameter=where>\n",
    "glm45": "<tool_call>get_weather\n<arg_key>where</arg_key>\n<arg_value>",
    "gemma4": "<|tool_call>call:get_weather{city:",
    "openai": "<|channel|>commentary to=functions.get_weather<|message|>",
    "hf, json": "<tool_call>",
    "hf, channels": " to=functions.get_weather<|channel|>commentary<|message|>",
    "hf, dialect": "<|tool_call>call:get_weather{",
    "hf, tags": "<tool_call>\n<function=get_weather>\n<parameter=city>\n",
    "hf, lines": "<tool_call>get_weather\n",
}
"""By parser: the beginning of a call. What is repeated in it may be a value."""


def cases() -> Iterator[Any]:
    """Yield each parser with all that its outputs repeat, from their beginning on and in a call."""
    for name, found, markers in parsers():
        for opening in dict.fromkeys(("", OPENINGS.get(name, ""))):
            place = "in a call" if opening else "alone"
            for label, text in {**REPEATED, **{marker: marker for marker in markers}}.items():
                yield pytest.param(
                    found,
                    opening,
                    text,
                    id=f"{name}, {place}: {label}",
                    marks=() if opening else pytest.mark.long,
                )
            for marker in markers if not opening else ():
                yield pytest.param(
                    found, "", f"{marker}a\n", id=f"{name}, alone: {marker} and text", marks=pytest.mark.long
                )


def run(parser: Parser, chunks: Sequence[Sequence[Piece]]) -> int:
    """Parse an output in chunks, with the state as JSON between two. Returns how much text was read."""
    state, read = read_start(parser, None).state, 0
    for number, chunk in enumerate(chunks):
        if number:
            written = json.dumps(dump_state(parser, state))
            state, read = load_state(parser, json.loads(written)), read + len(written)
        _, state = parse(parser, state, chunk)
    finish(parser, state, cut=False)
    return read + sum(len(str(piece)) for chunk in chunks for piece in chunk)


@pytest.mark.parametrize(
    "whole", [True, pytest.param(False, marks=pytest.mark.long)], ids=["whole", "in chunks"]
)
@pytest.mark.parametrize(("parsers", "opening", "text"), [*cases()])
def test_the_work_is_linear_in_the_output(parsers: Parsers, opening: str, text: str, *, whole: bool) -> None:
    """In chunks, it is linear in the output and the states, which may have to keep all of a call."""
    parser = request_parser(parsers, tools=TOOLS, whole_calls=whole)

    def prepare(size: int) -> Callable[[], int]:
        output = opening + text * (size // len(text))
        texts = [output] if whole else [output[at : at + CHUNK] for at in range(0, len(output), CHUNK)]
        chunks = [to_pieces(parser, each) for each in texts]
        return lambda: run(parser, chunks)

    small, large = (prepare(size)() for size in SIZES)
    assert max(growth(SIZES, prepare)) < MORE * max(large / small, 2)
