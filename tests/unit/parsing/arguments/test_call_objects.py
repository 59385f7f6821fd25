"""Calls that are JSON objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import pytest

from derender.parsing.arguments.call_objects import (
    CallObjectsState,
    ObjectArguments,
    ObjectEnd,
    ObjectName,
    read_call_objects,
)
from derender.parsing.arguments.notation import NotationState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from derender.parsing.arguments.call_objects import Phase

MARKERS: Final = {"\ud800": "<tool>"}


class Got(NamedTuple):
    """What a text was read as."""

    calls: list[tuple[str, str, bool]]
    """Names, arguments, and whether they ended."""
    rest: str
    phase: Phase


def in_pieces(pieces: Sequence[str], *, known_keys: bool, ends: tuple[str, ...] = ()) -> Got:
    """Read calls that come in pieces; between two, the state is JSON."""
    calls: list[tuple[str, str, bool]] = []
    state, kept = CallObjectsState(), ""
    for number, piece in enumerate(pieces):
        kept += piece
        final = number == len(pieces) - 1
        while True:
            got = read_call_objects(
                state, kept, 0, markers=MARKERS, known_keys=known_keys, ends=ends, final=final
            )
            for found in got.found:
                match found:
                    case ObjectName(name, _):
                        calls.append((name, "", False))
                    case ObjectArguments(json):
                        name, arguments, _ = calls[-1]
                        calls[-1] = (name, arguments + json, False)
                    case ObjectEnd():
                        calls[-1] = (*calls[-1][:2], True)
            goes_on = bool(got.found) and not isinstance(got.found[-1], ObjectArguments)
            kept = kept[got.end :]
            state = msgspec.json.decode(msgspec.json.encode(got.state), type=CallObjectsState)
            if not goes_on or state.phase in ("done", "bad"):
                break
    return Got(calls, kept, state.phase)


def cuts(text: str) -> Iterator[Sequence[str]]:
    """A text whole, cut everywhere, and in two at each place."""
    yield [text]
    yield list(text)
    for place in range(1, len(text)):
        yield [text[:place], text[place:]]


def reads(text: str, *, known_keys: bool = False, ends: tuple[str, ...] = ()) -> Got:
    """What a text is read as, which is the same however it is cut."""
    first, *others = (in_pieces(pieces, known_keys=known_keys, ends=ends) for pieces in cuts(text))
    for other in others:
        assert other == first
    return first


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        pytest.param('{"name": "f", "arguments": {"a": 1}}', '{"a": 1}', id="name first"),
        pytest.param('{"arguments": {"a": 1}, "name": "f"}', '{"a": 1}', id="arguments first"),
        pytest.param('{"name": "f", "parameters": {"a": 1}}', '{"a": 1}', id="parameters"),
        pytest.param('{"name":"f","arguments":{"a":1}}', '{"a":1}', id="no space"),
        pytest.param(' {\n"name" : "f" ,\n "arguments" : { "a":  [1] } \n}', '{ "a":  [1] }', id="much space"),
        pytest.param('{"type": "function", "name": "f", "arguments": {}}', "{}", id="type"),
        pytest.param('{"id": "x", "index": 0, "name": "f", "arguments": {}}', "{}", id="id and index"),
        pytest.param('{"function": {"x": 1}, "name": "f", "arguments": {}}', "{}", id="function"),
        pytest.param('{"function": "f", "arguments": {"a": 1}}', '{"a": 1}', id="function is the name"),
        pytest.param('{"function": "", "name": "f", "arguments": {}}', "{}", id="function is empty"),
        pytest.param(f'{{"function": "{"x" * 300}", "name": "f"}}', "{}", id="function is long"),
        pytest.param(f'{{"function": [{" " * 300}"x"], "name": "f"}}', "{}", id="function is a list"),
        pytest.param('{"name": "f"}', "{}", id="no arguments"),
        pytest.param('{"name": "f", "arguments": null}', "{}", id="null"),
        pytest.param('{"arguments": null, "name": "f"}', "{}", id="null first"),
        pytest.param('{"name": "f", "arguments": ""}', "{}", id="an empty string"),
        pytest.param('{"name": "f", "arguments": "{\\"a\\": \\"b\\\\n\\"}"}', r'{"a": "b\n"}', id="a string"),
        pytest.param('{"arguments": " {} ", "name": "f"}', "{}", id="a string first"),
        pytest.param(
            '{"name": "f", "arguments": {"a": "}{\\"", "name": "g"}}',
            r'{"a": "}{\"", "name": "g"}',
            id="braces",
        ),
        pytest.param(
            '{"name": "f", "arguments": {"a": "\ud800"}}', '{"a": "<tool>"}', id="a marker in a string"
        ),
        pytest.param('{"name": "f", "arguments": {"a": 1}, "parameters": {"b": 2}}', '{"a": 1}', id="both"),
        pytest.param('{"arguments": {"a": 1}, "arguments": {"b": 2}, "name": "f"}', '{"a": 1}', id="twice"),
        pytest.param('{"name": "f", "name": "g", "arguments": {}}', "{}", id="two names"),
        pytest.param("{'name': 'f', 'arguments': {'a': \"it's\"}}", '{"a": "it\'s"}', id="single quotes"),
        pytest.param("{'name': 'f', 'arguments': None}", "{}", id="None"),
        pytest.param("{'arguments': '{\"a\": 1}', 'name': 'f'}", '{"a": 1}', id="a string in single quotes"),
        pytest.param("{name: 'f', arguments: {a: True}}", '{"a": true}', id="bare keys"),
        pytest.param(r'{"name": "f", "arguments": {"a": "C:\dir"}}', r'{"a": "C:\\dir"}', id="a backslash"),
        pytest.param('{"name": "f", "arguments": {"a": 1,}, }', '{"a": 1}', id="trailing commas"),
        pytest.param(
            '{"arguments": null, "parameters": {"b": 2}, "name": "f"}', '{"b": 2}', id="null, then some"
        ),
    ],
)
@pytest.mark.parametrize("known_keys", [False, True])
def test_a_call_is_read(text: str, arguments: str, known_keys: bool) -> None:
    assert reads(f"{text}~", known_keys=known_keys) == Got([("f", arguments, True)], "~", "done")


def test_a_name_may_have_any_characters() -> None:
    assert reads(r'{"name": "a.b-c \u00e9\"", "arguments": {}}').calls == [('a.b-c é"', "{}", True)]


def test_a_list_of_calls_is_read() -> None:
    text = '[{"name": "f", "arguments": {"a": 1}} , {"arguments": {}, "name": "g"}] tail'
    assert reads(text) == Got([("f", '{"a": 1}', True), ("g", "{}", True)], " tail", "done")


def test_a_list_may_have_a_trailing_comma() -> None:
    assert reads('[{"name": "f"}, ] tail') == Got([("f", "{}", True)], " tail", "done")


def test_an_empty_list_has_no_calls() -> None:
    assert reads("[ ]") == Got([], "", "done")


def test_other_keys_are_ignored_or_refused() -> None:
    text = '{"reason": {"a": [1]}, "name": "f", "arguments": {}}'
    assert reads(text) == Got([("f", "{}", True)], "", "done")
    assert reads(text, known_keys=True).phase == "bad"


@pytest.mark.parametrize(
    "text", ['{"name": "f", "a": 1}', '{"a": 1, "name": "f"}', '{"name": "f", "a": 1, "arguments": null}']
)
def test_other_keys_in_place_of_arguments_are_no_call(text: str) -> None:
    assert reads(text).phase == "bad"


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "f", "arguments": {"a": 1}, "id": "x"}',
        '{"name": "f", "id": "x", "arguments": {"a": 1}}',
        '{"id": "x", "name": "f", "arguments": {"a": 1}}',
    ],
)
def test_arguments_come_without_the_text_around_them(text: str) -> None:
    assert reads(text).calls == [("f", '{"a": 1}', True)]


def test_the_id_is_read_if_it_comes_before_the_name() -> None:
    got = read_call_objects(CallObjectsState(), '{"id": "x1", "name": "f"}', 0, markers={}, known_keys=True)
    assert got.found[0] == ObjectName("f", "x1")


def test_arguments_are_passed_on_as_they_arrive() -> None:
    text = '{"name": "f", "arguments": {"a": "Pa'
    named = read_call_objects(CallObjectsState(), text, 0, markers={}, known_keys=True)
    assert named.found == [ObjectName("f", "")]
    begun = read_call_objects(named.state, text, named.end, markers={}, known_keys=True)
    assert begun.found == [ObjectArguments('{"a": "Pa')]


def test_arguments_wait_for_the_name() -> None:
    assert (
        read_call_objects(CallObjectsState(), '{"arguments": {"a": 1}, ', 0, markers={}, known_keys=True).found
        == []
    )


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("oops", []),
        ('"f"', []),
        ("{oops}", []),
        ("[1]", []),
        ("[[]]", []),
        ("{}", []),
        ('{"arguments": {}}', []),
        ('{"name": 1, "arguments": {}}', []),
        ('{"name": "", "arguments": {}}', []),
        ('{"name": null}', []),
        ('{"name" "f"}', []),
        ('{"name": "f", , }', [("f", "", False)]),
        ("{name}", []),
        ('{"name": "f" "arguments": {}}', [("f", "", False)]),
        ('{"name": "f", "arguments": [1]}', [("f", "", False)]),
        ('{"name": "f", "arguments": "text"}', [("f", "", False)]),
        ('{"name": "f", "arguments": "[1]"}', [("f", "", False)]),
        ('{"name": "f", "arguments": 1}', [("f", "", False)]),
        ('{"name": "f", "arguments": {"a": 1} "x"}', [("f", '{"a": 1', False)]),
        ('{"arguments": {}, "name": "f" "x"}', [("f", "{", False)]),
        ('{"name": "f", "arguments": "{}" "x"}', [("f", "{", False)]),
        ('{"name": "f", "arguments": {"a": }}', [("f", '{"a": ', False)]),
        ('{"name": "f", "arguments": {"a": \ud800}}', [("f", '{"a": ', False)]),
        ('[{"name": "f"}, oops]', [("f", "{}", True)]),
        ('[{"name": "f"}, , ]', [("f", "{}", True)]),
        ("[, ]", []),
        ('[{"name": "f"} {"name": "g"}]', [("f", "{}", True)]),
    ],
)
def test_a_malformed_call_is_a_fault(text: str, calls: list[tuple[str, str, bool]]) -> None:
    got = reads(text)
    assert (got.calls, got.phase) == (calls, "bad")


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("", []),
        ("[", []),
        ('{"name": "f', []),
        ('{"name": "f", "arguments": {"a": "Par', [("f", '{"a": "Par', False)]),
        ('{"name": "f"', [("f", "", False)]),
        ('[{"name": "f"}', [("f", "{}", True)]),
        ('[{"name": "f"}, {"name": "g", "argum', [("f", "{}", True), ("g", "", False)]),
    ],
)
def test_a_truncated_call_has_not_ended(text: str, calls: list[tuple[str, str, bool]]) -> None:
    got = reads(text)
    assert got.calls == calls
    assert got.phase not in ("done", "bad")


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "f", "arguments": {"a": 1}',
        '{"name": "f", "arguments": {"a": 1}\n',
        '{"arguments": {"a": 1}, "name": "f"',
        '{"name": "f", "arguments": "{\\"a\\": 1}"',
    ],
)
def test_the_last_brace_may_be_missing_at_the_end_of_the_output(text: str) -> None:
    assert reads(text) == Got([("f", '{"a": 1}', True)], "", "done")


def test_a_key_that_makes_it_no_call_is_not_read() -> None:
    assert reads('{"name": "f", "arguments": {}, "zebra": 1}', known_keys=True).rest == '"zebra": 1}'


@pytest.mark.parametrize("end", ["\ud801", "</call>"])
@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('{"name": "f", "arguments": {"a": "b"}\n', [("f", '{"a": "b"}')]),
        ('{"name": "f", "arguments": {"a": "b"', [("f", '{"a": "b"}')]),
        ('{"name": "f", "arguments": {"a": [1, {"b": 23', [("f", '{"a": [1, {"b": 23}]}')]),
        ('{"name": "f", "arguments": {}', [("f", "{}")]),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"', [("f", '{"a": 1}')]),
        ('{"name": "f", "arguments": null', [("f", "{}")]),
        ('{"name": "f"', [("f", "{}")]),
        ('{"arguments": {"a": 1}, "name": "f"', [("f", '{"a": 1}')]),
        ('{"name": "f", "arguments": {"a": 1}, "id": "x"', [("f", '{"a": 1}')]),
        ('[{"name": "f"}, {"name": "g", "arguments": {"a": 1', [("f", "{}"), ("g", '{"a": 1}')]),
        ('[{"name": "f"}, {"name": "g"}', [("f", "{}"), ("g", "{}")]),
        ('{"name": "f", "arguments": {"a": 1}}', [("f", '{"a": 1}')]),
    ],
)
def test_brackets_that_are_missing_before_the_end_marker_are_added(
    text: str, calls: list[tuple[str, str]], end: str
) -> None:
    expected = [(name, arguments, True) for name, arguments in calls]
    assert reads(f"{text}{end}{{", ends=("\ud802", end)) == Got(expected, f"{end}{{", "done")


@pytest.mark.parametrize("end", ["\ud801", "</call>"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "{",
        '{"arguments": {"a": 1}',
        '{"name"',
        '{"name": "f", ',
        '{"name": "f", "arguments"',
        '{"name": "f", "arguments": ',
        '{"name": "f", "arguments": {"a": ',
        '{"name": "f", "arguments": {"a": fals',
        '{"name": "f", "arguments": {"a": 1, ',
    ],
)
def test_what_is_not_complete_before_the_end_marker_is_a_fault(text: str, end: str) -> None:
    assert reads(text + end, ends=(end,)).phase == "bad"


@pytest.mark.parametrize("text", ['{"name": "f"</cal', '[{"name": "f"}<'])
def test_a_beginning_of_the_end_marker_waits(text: str) -> None:
    for pieces in cuts(text):
        assert in_pieces([*pieces, "l>", ""], known_keys=True, ends=("</call>",)).phase == (
            "done" if text.endswith("</cal") else "bad"
        )


@pytest.mark.parametrize(
    "text", ['{"name": "%s"}', '{"%s": 1, "name": "f", "arguments": {}}', '{"id": "%s", "name": "f"}']
)
def test_names_keys_and_ids_are_bounded(text: str) -> None:
    for pieces in cuts(text % ("x" * 180)):
        assert in_pieces(pieces, known_keys=False).phase == "done"
    for pieces in cuts(text % ("x" * 201)):
        assert in_pieces(pieces, known_keys=False).phase == "bad"


@pytest.mark.parametrize("text", ['"x', '"\\', '"\\u12"'])
def test_a_forged_state_is_no_call(text: str) -> None:
    state = CallObjectsState("value", key="name", text=text, value=NotationState("string"))
    result = read_call_objects(state, '"', 0, markers={}, known_keys=True)
    assert (result.found, result.state.phase) in (([], "bad"), ([ObjectName("x", "")], "after value"))
