"""Bare values of parameters, which come in pieces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec
import pytest

from derender.parsing.arguments.schema import ANY_TYPE, MAX_UNDECIDED
from derender.parsing.arguments.values import ValueState, begin_value, end_value, read_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from derender.parsing.arguments.values import DeclaredType

MARKERS: Final = {"\ud800": '<"tool">'}
STRING: Final = frozenset({"string"})
INTEGER: Final = frozenset({"integer"})
OBJECT: Final = frozenset({"object"})
LONG: Final = "x" * (MAX_UNDECIDED + 1)


def comes(
    pieces: Sequence[str], types: frozenset[str], written: DeclaredType | None = None, *, keep: bool = False
) -> list[str | None]:
    """The JSON that the beginning, each piece and the end of a value bring; between two, the state is JSON."""
    began = begin_value(types, written)
    brought: list[str | None] = [began.json]
    state = began.state
    for piece in pieces:
        got = read_value(state, piece, types, MARKERS, whole=keep)
        brought.append(got.json)
        state = msgspec.json.decode(msgspec.json.encode(got.state), type=ValueState)
    return [*brought, end_value(state, types, written)]


def whole(parts: Sequence[str | None]) -> str | None:
    """What was brought, joined; None where the end says that it is no JSON."""
    return None if parts[-1] is None else "".join([part for part in parts if part])


def value(
    text: str, types: frozenset[str], written: DeclaredType | None = None, *, keep: bool = False
) -> str | None:
    """A value's JSON, which is the same in one piece and character by character."""
    first = whole(comes([text], types, written, keep=keep))
    assert whole(comes(list(text), types, written, keep=keep)) == first
    return first


def spelled(text: str, types: frozenset[str]) -> str | None:
    """A value's JSON, character by character; None where it began as JSON and is none."""
    return whole(comes(list(text), types))


def test_a_string_is_passed_on_as_it_arrives() -> None:
    assert comes(["Par", 'i"s', "\n"], STRING) == ['"', "Par", r"i\"s", r"\n", '"']


def test_an_undecided_value_is_kept_to_its_end() -> None:
    assert comes(["1", "2"], INTEGER) == ["", "", "", "12"]
    assert comes(["1", "2", "x"], INTEGER) == ["", "", "", "", '"12x"']
    assert comes(["nu", "ll"], ANY_TYPE) == ["", "", "", "null"]


def test_a_long_undecided_value_becomes_a_string() -> None:
    assert comes([LONG[:-1], "x", '"', "y"], ANY_TYPE) == ["", "", f'"{LONG}', r"\"", "y", '"']


def test_long_json_is_passed_on_if_its_type_is_allowed() -> None:
    assert comes([f'{{"a": "{LONG}', '", "b', '": 1', "2}"], OBJECT) == [
        "",
        f'{{"a": "{LONG}',
        '", "b',
        '": ',
        "12}",
        "",
    ]


@pytest.mark.parametrize(
    ("text", "types"),
    [
        (f'{{"a": "{LONG}"}}', STRING | INTEGER),
        (f"{{a {LONG}}}", OBJECT),
        (f"[{LONG}]", OBJECT),
        (f"('{LONG}')", ANY_TYPE),
        (f"{LONG} {{", ANY_TYPE),
        ("1" * (MAX_UNDECIDED + 1), INTEGER),
    ],
)
def test_a_long_text_of_no_other_type_is_a_string(text: str, types: frozenset[str]) -> None:
    assert value(text, types) == json.dumps(text)


def test_long_malformed_json_is_a_string_only_if_it_was_kept() -> None:
    text = f'{{"a": "{LONG}", oops}}'
    assert spelled(text, OBJECT) is None
    assert value(text, OBJECT, keep=True) == json.dumps(text)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'{{"a": ["{LONG}", 12', f'{{"a": ["{LONG}", 12]}}'),
        (f'{{"a": ["{LONG}"]\n', f'{{"a": ["{LONG}"]}}'),
    ],
)
def test_brackets_that_long_json_lacks_are_added(text: str, expected: str, keep: bool) -> None:
    found = value(text, OBJECT, keep=keep)
    assert found is not None
    assert json.loads(found) == json.loads(expected)
    assert value(text, OBJECT | STRING, keep=keep) == (json.dumps(text) if keep else None)


@pytest.mark.parametrize("behind", [" x", "}", "\ud800"])
def test_text_after_long_json_is_a_fault(behind: str) -> None:
    text = f'{{"a": "{LONG}"}}'
    assert spelled(text + " \n", OBJECT) == text
    assert spelled(text + behind, OBJECT) is None


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("text", "types", "written", "expected"),
    [
        ("5", ANY_TYPE, "string", '"5"'),
        ("null", ANY_TYPE, "string", '"null"'),
        ("5", INTEGER, "string", '"5"'),
        ("5", STRING, "string", '"5"'),
        ("5", ANY_TYPE, "json", "5"),
        ('"5"', ANY_TYPE, "json", '"5"'),
        ('"5"', STRING, "json", '"5"'),
        ("[1]", ANY_TYPE, "json", "[1]"),
        ("Paris", ANY_TYPE, "json", '"Paris"'),
        ('"5"', ANY_TYPE, None, r'"\"5\""'),
        ("", ANY_TYPE, None, '""'),
        ("", STRING, None, '""'),
        (" Paris\n", ANY_TYPE, None, r'" Paris\n"'),
        ("{'a': 1}", OBJECT, None, '{"a": 1}'),
    ],
)
def test_the_declared_type_decides(
    text: str, types: frozenset[str], written: DeclaredType | None, keep: bool, expected: str
) -> None:
    assert value(text, types, written, keep=keep) == expected


@pytest.mark.parametrize("types", [STRING, ANY_TYPE])
def test_markers_in_a_value_are_text(types: frozenset[str]) -> None:
    assert value("a\ud800é", types) == r'"a<\"tool\">é"'


def test_markers_in_long_json_are_text() -> None:
    assert spelled(f'["{LONG}\ud800"]', ANY_TYPE) == rf'["{LONG}<\"tool\">"]'
