"""Values as models write them, read as JSON."""

from __future__ import annotations

import json
from cProfile import Profile
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import pytest

from derender.parsing.arguments.literals import escape
from derender.parsing.arguments.notation import (
    CALL_ARGUMENTS,
    GEMMA,
    JSON,
    MAX_DEPTH,
    MAX_WORD,
    PYTHON,
    NotationState,
    read_notation,
    to_json,
    with_quotes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from derender.parsing.arguments.notation import Notation, Phase

QUOTE: Final = "\ud800"
MARKERS: Final = {QUOTE: '<|"|>', "\ud801": "<tool>"}
QUOTED: Final = with_quotes(GEMMA, {'<|"|>': QUOTE})
"""Gemma's notation where the quote is a token."""


class Got(NamedTuple):
    """What a text was read as."""

    json: str
    rest: str
    """What was not read."""
    phase: Phase


def in_pieces(
    notation: Notation, pieces: Sequence[str], state: NotationState, *, ends: tuple[str, ...] = (), final: bool
) -> Got:
    """Read text that comes in pieces; between two, the state is JSON."""
    written, kept = "", ""
    for number, piece in enumerate(pieces):
        kept += piece
        last = final and number == len(pieces) - 1
        got = read_notation(notation, state, kept, 0, markers=MARKERS, ends=ends, final=last)
        written, kept = written + got.json, kept[got.end :]
        state = msgspec.json.decode(msgspec.json.encode(got.state), type=NotationState)
    return Got(written, kept, state.phase)


def cuts(text: str) -> Iterator[Sequence[str]]:
    """A text whole, cut everywhere, and in two at each place."""
    yield [text]
    yield list(text)
    for place in range(1, len(text)):
        yield [text[:place], text[place:]]


def reads(
    notation: Notation,
    text: str,
    state: NotationState | None = None,
    *,
    ends: tuple[str, ...] = (),
    final: bool = True,
) -> Got:
    """What a text is read as, which is the same however it is cut."""
    first, *others = (
        in_pieces(notation, pieces, state or NotationState(), ends=ends, final=final) for pieces in cuts(text)
    )
    for other in others:
        assert other == first
    return first


@pytest.mark.parametrize(
    "text",
    [
        '{"city": "Paris", "days": 2}',
        '{"city":"Paris","days":2}',
        ' \n{ "a" :\t[ 1 , 2.5e-3,-0 ] }',
        "{}",
        "[]",
        "[ ]",
        "[[], {}, [{}]]",
        '{"a": {"b": {"c": []}}}',
        '["a", 1, -2, 3.5, 1E+20, true, false, null]',
        '{"a}": "]{", "b": "[,:"}',
        r'"\" \\ \/ \b\f\n\r\t é"',
        '"naïve 東京 😀"',
        '"it\'s <b>"',
        '""',
        "12345678901234567890123",
        "true",
        "null",
        '{"a": 1, "a": 2}',
    ],
)
def test_json_stays_as_written(text: str) -> None:
    assert reads(JSON, text) == Got(text, "", "done")
    json.loads(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'"\u0041\u00E9\u6771"', '"Aé東"'),
        (r'"\ud83d\uDE00"', '"😀"'),
        (r'"\u0022\u005c\u000a\u0000"', r'"\"\\\n\u0000"'),
        (r'"\ud83d"', r'"\ud83d"'),
        (r'"\ud83d \ude00"', r'"\ud83d \ude00"'),
        (r'"\ud83d\n"', r'"\ud83d\n"'),
        (r'"\ud83d\u0041"', r'"\ud83dA"'),
        (r'"\ud83d\ud83d\ude00"', r'"\ud83d😀"'),
    ],
)
def test_escapes_that_json_does_not_need_are_removed(text: str, expected: str) -> None:
    assert reads(JSON, text) == Got(expected, "", "done")
    assert json.loads(expected) == json.loads(text)


def test_control_characters_in_strings_are_escaped() -> None:
    assert reads(JSON, '{"a\x00": "line\nbreak\ttab\x1f"}').json == r'{"a\u0000": "line\nbreak\ttab\u001f"}'


def test_markers_in_strings_are_text() -> None:
    assert reads(JSON, '{"\ud801": "a\ud800b"}') == Got(r'{"<tool>": "a<|\"|>b"}', "", "done")


def test_reading_stops_after_the_value() -> None:
    assert reads(JSON, '{"a": 1} {"b": 2}') == Got('{"a": 1}', ' {"b": 2}', "done")
    assert reads(JSON, "12]") == Got("12", "]", "done")


@pytest.mark.parametrize(
    ("written", "rest"),
    [
        ("", "oops"),
        ("", "tru"),
        ("", "nan"),
        ("", "(1)"),
        ("", "]"),
        ("", ","),
        ("", "01"),
        ("", "+007"),
        ("", "NaN"),
        ("", "1.2.3"),
        ("", "\ud801"),
        ("[1, ", "2x]"),
        ("[1 ", "2]"),
        ("[", ",1]"),
        ("[", "}"),
        ("[1", "}"),
        ("{", ",}"),
        ("[1,", ",]"),
        ('{"a": 1,', ",}"),
        ('{"a"', "}"),
        ('{"a": 1, "oops"', "}"),
        ('{"a": ', "fasle}"),
        ('{"a": ', "Paris}"),
        ('{"it"', "s': 1}"),
        ('{"a"', ', "b"}'),
        ('{"a" ', "1}"),
        ('{"a"', "= 1}"),
        ('{"a":', "}"),
        ('{"a": 1', "]"),
        ('{"a": 1 ', '"b": 2}'),
        ('{"a": ', "\ud801}"),
    ],
)
def test_malformed_json_is_read_up_to_its_fault(written: str, rest: str) -> None:
    assert reads(JSON, written + rest) == Got(written, rest, "bad")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(r'"C:\dir"', r'"C:\\dir"', id="a backslash before a letter"),
        pytest.param(r'"\d+\.\w\x41\0"', r'"\\d+\\.\\w\\x41\\0"', id="no escapes of JSON"),
        pytest.param(r'"\u12"', r'"\\u12"', id="an escape that ends early"),
        pytest.param(r'"C:\users\u00e9"', r'"C:\\usersé"', id="an escape, and what looks like one"),
        pytest.param(r'"\ud83d\u12"', r'"\ud83d\\u12"', id="behind half of a pair"),
        pytest.param('"a\\\nb"', r'"a\\\nb"', id="a backslash at the end of a line"),
        pytest.param('"\\\ud801"', r'"\\<tool>"', id="a backslash before a marker"),
        pytest.param('"\\é"', r'"\\é"', id="a backslash before another character"),
        pytest.param(r'"it\'s"', '"it\'s"', id="a single quote escaped"),
        pytest.param("'a'", '"a"', id="single quotes"),
        pytest.param("''", '""', id="an empty string"),
        pytest.param(r"""'say "it\'s"'""", r'''"say \"it's\""''', id="quotes in single quotes"),
        pytest.param(r"""'\"\n\\\/\u00e9'""", r'"\"\n\\\/é"', id="escapes in single quotes"),
        pytest.param("{'a': {'b': [\"it's\", 'x']}}", '{"a": {"b": ["it\'s", "x"]}}', id="nested"),
        pytest.param("{'a':  1 }", '{"a":  1 }', id="white space stays"),
        pytest.param("[True, False, None]", "[true, false, null]", id="words of Python"),
        pytest.param("""{"a": 'b', 'c': "d"}""", '{"a": "b", "c": "d"}', id="quotes of both kinds"),
        pytest.param("{a: 1, _b2 : [{c:2}]}", '{"a": 1, "_b2" : [{"c":2}]}', id="bare keys"),
        pytest.param("{1: 2}", '{"1": 2}', id="a key that is a number"),
        pytest.param('{"a": 1,}', '{"a": 1}', id="a trailing comma"),
        pytest.param("[1 ,\n ]", "[1 \n ]", id="a trailing comma and white space"),
        pytest.param('{"a": [[1,],{"b": 2 , },],}', '{"a": [[1],{"b": 2  }]}', id="trailing commas"),
        pytest.param("[+1, .5, -.5, 1., 0x1F, 1_000]", "[1, 0.5, -0.5, 1.0, 31, 1000]", id="numbers"),
    ],
)
def test_what_can_mean_one_thing_only_becomes_json(text: str, expected: str) -> None:
    assert reads(JSON, text) == Got(expected, "", "done")
    json.loads(expected)


def test_white_space_after_a_comma_waits_within_bounds() -> None:
    for length, phase in ((MAX_WORD, "done"), (MAX_WORD + 1, "bad")):
        assert reads(JSON, f"[1,{' ' * length}]").phase == phase
        text = f"[1,{' ' * length}2]"
        assert reads(JSON, text) == Got(text, "", "done")


@pytest.mark.parametrize(
    ("text", "written", "rest"),
    [
        ('{"a": "b', '{"a": "b', ""),
        ('{"a": "b\\', '{"a": "b', "\\"),
        ('{"a": "b\\u00e', '{"a": "b', "\\u00e"),
        ('{"a": 12', '{"a": ', "12"),
        ('{"a": 1, ', '{"a": 1', ", "),
        ("[tr", "[", "tr"),
        ('{"a": ', '{"a": ', ""),
    ],
)
def test_incomplete_words_commas_and_escapes_wait(text: str, written: str, rest: str) -> None:
    got = reads(JSON, text, final=False)
    assert (got.json, got.rest) == (written, rest)
    assert got.phase not in ("done", "bad")


@pytest.mark.parametrize("text", ['"\\', '"\\u00e'])
def test_an_escape_cut_by_the_end_is_a_backslash(text: str) -> None:
    assert reads(JSON, text) == Got(r'"\\' + text[2:], "", "string")


@pytest.mark.parametrize("notation", [JSON, PYTHON, GEMMA])
def test_nesting_is_bounded(notation: Notation) -> None:
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert to_json(notation, deepest) == deepest
    assert to_json(notation, f"[{deepest}]") is None
    assert to_json(notation, '{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1)) is None


@pytest.mark.parametrize("notation", [JSON, PYTHON, GEMMA])
def test_words_are_bounded(notation: Notation) -> None:
    longest = "1" * MAX_WORD
    assert to_json(notation, f"[{longest}]") == f"[{longest}]"
    assert to_json(notation, f"[{longest}1]") is None
    assert read_notation(notation, NotationState(), f"{longest}1", 0).state.phase == "bad", (
        "before its end is known"
    )


def test_strings_are_not_bounded() -> None:
    text = json.dumps("x" * 10_000)
    assert to_json(JSON, text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("'a'", '"a"', id="single quotes"),
        pytest.param('"a"', '"a"', id="double quotes"),
        pytest.param("'''it's'''", '"it\'s"', id="triple quotes"),
        pytest.param('"""say "x"."""', r'"say \"x\"."', id="triple double quotes"),
        pytest.param("'say \"x\"'", r'"say \"x\""', id="a quote of the other kind"),
        pytest.param("''", '""', id="empty"),
        pytest.param("''''''", '""', id="empty, triple"),
        pytest.param("'''a\nb'''", r'"a\nb"', id="lines"),
        pytest.param(r"'\x41\u00e9\U0001F600\101\0'", r'"Aé😀A\u0000"', id="escapes of characters"),
        pytest.param(r"'\n\t\r\b\f\v\a\\\'\"'", r'"\n\t\r\b\f\u000b\u0007\\' + "'" + r'\""', id="escapes"),
        pytest.param(r"'\d \/'", r'"\\d \\/"', id="no escapes"),
        pytest.param("'a\\\nb'", '"ab"', id="line continued"),
        pytest.param(r"'C:\Users\x\u12'", r'"C:\\Users\\x\\u12"', id="escapes that end early"),
        pytest.param(r"'\U00110000'", r'"\ufffd"', id="an escape of no character"),
        pytest.param(r"'\ud83d\ude00'", r'"\ud83d\ude00"', id="halves of a pair"),
        pytest.param("True", "true", id="True"),
        pytest.param("[False, None]", "[false, null]", id="False and None"),
        pytest.param("[true, false, null]", "[true, false, null]", id="words of JSON"),
        pytest.param("[1, -2, 3.5, 1e5]", "[1, -2, 3.5, 1e5]", id="numbers"),
        pytest.param("[1_000, 0x1F, 0b101, 0o17, +1]", "[1000, 31, 5, 15, 1]", id="integers of Python"),
        pytest.param("[.5, 1., -.5, 1_0.5]", "[0.5, 1.0, -0.5, 10.5]", id="fractions of Python"),
        pytest.param("(1, 'a')", '[1, "a"]', id="tuple"),
        pytest.param("()", "[]", id="empty tuple"),
        pytest.param("(1,)", "[1]", id="tuple of one"),
        pytest.param("[1,2 ,3,]", "[1, 2, 3]", id="list"),
        pytest.param("[]", "[]", id="empty list"),
        pytest.param("{'a':1,'b' : {'c': (True,)},}", '{"a": 1, "b": {"c": [true]}}', id="dictionaries"),
        pytest.param("{}", "{}", id="empty dictionary"),
    ],
)
def test_literals_of_python_become_json(text: str, expected: str) -> None:
    assert reads(PYTHON, text) == Got(expected, "", "done")
    json.loads(expected)


@pytest.mark.parametrize(
    "text",
    ["name", "1j", "[1 2]", "[,]", "{'a'}", "{'a': }", "f'a'", "-", "f(1)", "[1)", "(1]", "007", "1 + 1"],
)
def test_malformed_python_is_a_fault(text: str) -> None:
    assert to_json(PYTHON, text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "{}"),
        ("city='Paris'", '{"city": "Paris"}'),
        ("city = 'Paris' ,\n days=2,", '{"city": "Paris", "days": 2}'),
        ("where={'x': (1, 2)}, _a1=None", '{"where": {"x": [1, 2]}, "_a1": null}'),
    ],
)
def test_arguments_of_a_call_become_an_object(text: str, expected: str) -> None:
    got = reads(PYTHON, f"{text}) and more", CALL_ARGUMENTS)
    assert got == Got(expected[1:], " and more", "done")


@pytest.mark.parametrize(
    ("written", "rest"),
    [
        ("", "'Paris')"),
        ("", "1)"),
        ("", "**more)"),
        ("", "1a=2)"),
        ("", ",a=1)"),
        ('"a": ', "b)"),
        ('"a": ', ")"),
        ('"a"', ": 1)"),
        ('"a": 1', "]"),
        ('"a": 1', " b=2)"),
    ],
)
def test_malformed_arguments_of_a_call_are_a_fault(written: str, rest: str) -> None:
    text = written.replace('"', "").replace(": ", "=") + rest
    got = reads(PYTHON, text, CALL_ARGUMENTS)
    assert (got.json, got.rest, got.phase) == (written, rest.lstrip(), "bad")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{city:^Paris^,days:2}", '{"city": "Paris", "days": 2}'),
        ("{ city : ^Paris^ , days : 2 , }", '{"city": "Paris", "days": 2}'),
        ("{a b:^x^,^c d^:1}", '{"a b": "x", "c d": 1}'),
        ('{a:^{b:[1]}, "c" \\n^}', r'{"a": "{b:[1]}, \"c\" \\n"}'),
        (
            "{a:{b:[1,-2.5,true,false,null,^x^]},c:{},d:[]}",
            '{"a": {"b": [1, -2.5, true, false, null, "x"]}, "c": {}, "d": []}',
        ),
        ("{a:two words,b:http://x/y?z=1}", '{"a": "two words", "b": "http://x/y?z=1"}'),
        ('{a:"x"}', '{"a": "x"}'),
        ("{a:True,b:007,c:None}", '{"a": true, "b": "007", "c": null}'),
        ("{}", "{}"),
    ],
)
def test_gemmas_form_becomes_json(text: str, expected: str) -> None:
    assert reads(QUOTED, text.replace("^", QUOTE)) == Got(expected, "", "done")
    assert reads(GEMMA, text.replace("^", '<|"|>')) == Got(expected, "", "done"), "the quote as text"
    json.loads(expected)


@pytest.mark.parametrize("text", ["{city}", "{:1}", "{a:}", "{a:1 b:[2}", "[1", "{,}"])
def test_malformed_gemma_is_a_fault(text: str) -> None:
    assert to_json(GEMMA, "{a:[" + text + "]}") is None


def test_the_text_of_a_quote_is_text_if_the_quote_is_a_token() -> None:
    assert reads(QUOTED, '{a:\ud800x<|"|>y\ud800}').json == r'{"a": "x<|\"|>y"}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("{a:^ls}~", '{"a": "ls"}', id="an object"),
        pytest.param("{a:{b:[1,^x]}}~", '{"a": {"b": [1, "x"]}}', id="lists and objects"),
        pytest.param("{a:{b:[^x]~", '{"a": {"b": ["x"]}}', id="some brackets missing, too"),
        pytest.param("{a:^x\n}\n~", r'{"a": "x\n"}', id="white space"),
        pytest.param("{a:^if x {y}}~", '{"a": "if x {y}"}', id="brackets in the string"),
        pytest.param("{a:[^x[1]]}~", '{"a": ["x[1]"]}', id="brackets of both kinds"),
        pytest.param("{a:^}]}~", '{"a": "}]"}', id="brackets alone"),
        pytest.param('{a:"ls}~', '{"a": "ls"}', id="the other quote"),
        pytest.param("{a:^x} ~~", '{"a": "x"}', id="before more markup"),
        pytest.param("{a:^x}~ y^}", '{"a": "x}~ y"}', id="an end that is quoted"),
        pytest.param("{a:^x} y~^}", '{"a": "x} y^"}', id="text between"),
        pytest.param("{a:^x]~^}", '{"a": "x]^"}', id="another bracket"),
        pytest.param("{a:^x~^}", '{"a": "x^"}', id="no bracket"),
        pytest.param("{a:^x}^}", '{"a": "x}"}', id="a string that ends"),
    ],
)
@pytest.mark.parametrize(("quote", "end"), [(QUOTE, "\ud801"), ('<|"|>', "<tool>")])
def test_a_string_of_gemma_may_lack_its_end(text: str, expected: str, quote: str, end: str) -> None:
    notation = with_quotes(GEMMA, {'<|"|>': quote})
    text = text.replace("^", quote).replace("~", end)
    got = reads(notation, text, ends=(end,))
    assert (got.json, got.phase) == (expected.replace("^", "<tool>").replace("~", "<tool>"), "done")
    json.loads(got.json)


@pytest.mark.parametrize("text", ["{^a}~", "{a:^x}", "{a:^x}<to", f"{{a:^x}}{' ' * MAX_WORD} ~"])
def test_other_strings_of_gemma_go_on(text: str) -> None:
    got = reads(QUOTED, text.replace("^", QUOTE).replace("~", "\ud801"), ends=("\ud801", "<tool>"))
    assert got.phase in ("string", "key string")


def test_strings_of_json_need_their_end() -> None:
    assert reads(JSON, '{"a": "ls}\ud801', ends=("\ud801",)).phase == "string"


@pytest.mark.parametrize("text", ["", " ", "{", '{"a": 1} x', '"', "nul"])
def test_an_incomplete_value_is_no_json(text: str) -> None:
    assert to_json(JSON, text) is None


def test_white_space_around_a_value_is_dropped() -> None:
    assert to_json(JSON, ' \r\n{"a": 1}\t') == '{"a": 1}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é 東 😀", "plain é 東 😀"),
        ('"\\', r"\"\\"),
        ("\n\r\t\b\f\x00\x1f", r"\n\r\t\b\f\u0000\u001f"),
        ("\x7f\u2028", "\x7f\u2028"),
        ("\ud800", r"\ud800"),
    ],
)
def test_text_is_escaped_only_as_json_requires(text: str, expected: str) -> None:
    assert escape(text) == expected
    assert json.loads(f'"{expected}"') == text


@pytest.mark.parametrize("end", ["\ud801", "</call>", "<a=b>"])
@pytest.mark.parametrize(
    ("notation", "text", "expected"),
    [
        (JSON, '{"a": "b"', '{"a": "b"}'),
        (JSON, '{"a": {"b": [1, {"c": "d"}', '{"a": {"b": [1, {"c": "d"}]}}'),
        (JSON, '{"a": [1, 23', '{"a": [1, 23]}'),
        (JSON, '{"a": true', '{"a": true}'),
        (JSON, '{"a": {}', '{"a": {}}'),
        (JSON, '{"a": 1\n ', '{"a": 1\n }'),
        (JSON, '{"a": "\ud801</call><a=b>"', '{"a": "<tool></call><a=b>"}'),
        (PYTHON, "{'a': ('b', [None", '{"a": ["b", [null]]}'),
        (GEMMA, "{a:{b:[1,two words", '{"a": {"b": [1, "two words"]}}'),
        (JSON, '{"a": 1}', '{"a": 1}'),
        (JSON, "12", "12"),
    ],
)
def test_brackets_that_are_missing_before_the_end_marker_are_added(
    notation: Notation, text: str, expected: str, end: str
) -> None:
    assert reads(notation, f"{text}{end}}}]", ends=("\ud802", end)) == Got(expected, f"{end}}}]", "done")
    json.loads(expected)


def test_a_parenthesis_that_is_missing_before_the_end_marker_is_added() -> None:
    assert reads(PYTHON, "a=[1, 2\ud801", CALL_ARGUMENTS, ends=("\ud801",)) == Got(
        '"a": [1, 2]}', "\ud801", "done"
    )


@pytest.mark.parametrize("end", ["\ud801", "</call>", "<a=b>"])
@pytest.mark.parametrize(
    ("written", "rest"),
    [
        ("", ""),
        ("{", ""),
        ("[", ""),
        ('{"a"', ""),
        ('{"a":', ""),
        ('{"a": 1, ', ""),
        ("[1, ", ""),
        ('{"a": ', "fals"),
    ],
)
def test_what_is_not_complete_before_the_end_marker_is_a_fault(written: str, rest: str, end: str) -> None:
    assert reads(JSON, f"{written}{rest}{end}", ends=(end,)) == Got(written, f"{rest}{end}", "bad")


@pytest.mark.parametrize("text", ['{"a": "b"</cal>', '{"a": 1</cal>', '{"a": 1<a=c>', '{"a": "b"\ud800'])
def test_only_the_end_marker_ends_what_is_open(text: str) -> None:
    assert reads(JSON, text, ends=("</call>", "<a=b>", "\ud801")).phase == "bad"


@pytest.mark.parametrize("text", ['{"a": "b"</cal', '{"a": "b"<', '{"a": 1</call', '{"a": 12<a='])
def test_a_beginning_of_the_end_marker_waits(text: str) -> None:
    got = reads(JSON, text, ends=("</call>", "<a=b>"), final=False)
    assert got.phase in ("after", "value")
    assert text.endswith(got.rest)
    assert reads(JSON, text, ends=("</call>", "<a=b>"), final=True).phase == "bad"


def test_words_before_the_end_marker_are_bounded() -> None:
    for length, phase in ((MAX_WORD, "done"), (MAX_WORD + 1, "bad")):
        assert reads(JSON, f"[{'1' * length}</call>", ends=("</call>",)).phase == phase


@pytest.mark.parametrize(
    ("notation", "text"),
    [
        (JSON, r'["' + r"\d" * 1_000),
        (JSON, "[" + "1 ,  " * 1_000),
        (JSON, "['" + 'a"' * 1_000),
        (PYTHON, "['" + 'a"<' * 1_000),
        (GEMMA, "{a:{b:[" + '<|"|>' + "} ] " * 1_000),
        (GEMMA, '{a:<|"|>' + "}" * 3_000),
    ],
)
def test_work_grows_as_the_text_does(notation: Notation, text: str) -> None:
    few, many = (count_calls(notation, text[: len(text) // part]) for part in (2, 1))
    assert many < 2.2 * few


def count_calls(notation: Notation, text: str) -> int:
    """Count the function calls that reading a text takes."""
    profile = Profile(builtins=True)
    profile.runcall(read_notation, notation, NotationState(), text, 0, ends=("<tool>",), final=True)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize(
    "state",
    [
        {"phase": "next"},
        {"phase": "key"},
        {"phase": "after"},
        {"phase": "elsewhere"},
        {"phase": "next", "open": "("},
        {"phase": "next", "open": "]" * (MAX_DEPTH + 1)},
        {"phase": "string", "quote": 4},
        {"more": 1},
    ],
)
def test_an_impossible_state_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(state, NotationState)
