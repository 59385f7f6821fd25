"""What may follow parameters, in the formats that write them as bare text."""

from __future__ import annotations

from typing import Final

import pytest

from derender.parsing import dump_state, load_state, parse, read_start
from tests.support.parsers import Message, request_parser

from ..support import PARIS, TOOLS, check, check_both, marked_parsers, parse_output, to_pieces

CALLS: Final = {
    "deepseek_v32": (
        '<｜DSML｜function_calls><｜DSML｜invoke name="get_weather">',
        '<｜DSML｜parameter name="city" string="true">Paris',
        "</｜DSML｜parameter>",
    ),
    "glm47": ("<tool_call>get_weather", "<arg_key>city</arg_key><arg_value>Paris", "</arg_value>"),
    "kimi_k3": (
        '<|open|>tools<|sep|><|open|>call tool="get_weather"<|sep|>',
        '<|open|>argument key="city" type="string"<|sep|>Paris',
        "<|close|>argument<|sep|>",
    ),
    "qwen3_xml": ("<tool_call><function=get_weather>", "<parameter=city>Paris", "</parameter>"),
}
"""Parser → the beginning of a call, a parameter, and its end."""


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_parameter_after_an_object_is_text(name: str) -> None:
    begin, parameter, _ = CALLS[name]
    output = f'{begin}{{"city": "Paris"}}{parameter}'
    check_both(marked_parsers(name), output, Message(parameter, calls=[PARIS]))
    for whole_calls in (False, True):
        parser = request_parser(marked_parsers(name), tools=TOOLS, whole_calls=whole_calls)
        _, state = parse(parser, read_start(parser, None).state, to_pieces(parser, output))
        assert load_state(parser, dump_state(parser, state)) == state


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_value_ends_if_the_output_ends_in_other_text(name: str) -> None:
    output = f"{''.join(CALLS[name])}\nDone."
    parsers = marked_parsers(name)
    # The beginning of DSML's section is read with its first call.
    check(parsers, output, Message(output.removeprefix("<｜DSML｜function_calls>")))
    parser = request_parser(parsers, tools=TOOLS)
    assert parse_output(parser, output) == Message("\nDone.", calls=[("get_weather", '{"city": "Paris"')])
    cut = '{"city": ' + f'"Paris{CALLS[name][2]}\\nDone.'
    assert parse_output(parser, output, cut=True) == Message(calls=[("get_weather", cut)])
