r"""Values of arguments, and how models write them.

A number is its text, so that comparisons see how it was written. In strings, a character of `MARKS` stands
for the token of a marker. The text of a marker is ordinary text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "JSON_STYLES",
    "MARKS",
    "NUMBERS",
    "PYTHON_STYLES",
    "STRINGS",
    "Number",
    "Style",
    "Value",
    "as_gemma",
    "as_json",
    "as_python",
    "loads",
    "mapped",
    "objects",
    "strings",
    "values",
]

MARKS: Final = range(0xF0000, 0xF0100)
"""Characters that stand for the tokens of markers."""


@dataclass(frozen=True)
class Number:
    """A number as it is written."""

    text: str


Value: TypeAlias = "bool | Number | str | list[Value] | dict[str, Value] | None"

NUMBERS: Final = tuple(
    map(
        Number, ("0", "-0", "1", "-7", "42", "3.5", "-0.25", "1e5", "1E+21", "-2.5e-07", "12345678901234567890")
    )
)
INTEGERS: Final = tuple(map(Number, ("0", "-0", "1", "-7", "42", "12345678901234567890")))
STRINGS: Final = (
    # Words, and what surrounds them.
    "Paris", "a", "b c", " ", "\n", "\t", "\r\n", ".", ",", ":", "=", "#", "-",
    # Characters that are special somewhere.
    '"', "'", "''", '"""', "`", "```", "\\", "\\\\", "/", "{", "}", "[", "]", "(", ")", "<", ">", "</", "<|",
    "|>", "&", "&quot;", "&amp;lt;", "%", "$", "\x00", "\x07", "\x1f", "\x7f", "\u2028", "\ufeff",
    # Escapes that are none.
    "\\n", '\\"', "\\u0041", "\\ud83d", "\\x41", "\\u00", "\\",
    # Unicode.
    "Zürich", "e\u0301", "東京", "مرحبا", "👩\u200d💻", "🌸", "\u00a0", "\uffff", "｜", "▁",
    # What looks like values, and markup.
    "null", "None", "true", "False", "12", "-1.5e3", "{}", "[]", '{"a": 1}', '[1, "x"]', '"quoted"', "<b>x</b>",
    '{"name": "f", "arguments": {}}', '", "x": "', "')", '"}}', "f(x=1)",
)  # fmt: skip
"""Pieces of strings."""
OTHER_TEXT: Final = st.text(st.characters(exclude_categories=("Cs", "Co")), max_size=8)
"""Any text without characters of `MARKS`."""


@st.composite
def strings(draw: st.DrawFn, pieces: Sequence[str]) -> str:
    """Generate strings of pieces, and any others."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(OTHER_TEXT)
    return "".join(draw(st.lists(st.sampled_from(pieces), max_size=1 if kind < 4 else 5)))


def values(text: st.SearchStrategy[str], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Value]:
    """Generate values."""
    simple: st.SearchStrategy[Value] = st.one_of(
        text, st.sampled_from(NUMBERS), st.sampled_from((None, True, False))
    )
    return st.recursive(
        simple,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=5,
    )


def objects(text: st.SearchStrategy[str], keys: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Value]]:
    """Generate objects."""
    return st.dictionaries(keys, values(text, keys), max_size=4)


def mapped(value: Value, change: Callable[[str], str]) -> Value:
    """Return the value with its strings and keys changed."""
    match value:
        case str():
            return change(value)
        case list():
            return [mapped(item, change) for item in value]
        case dict():
            return {change(key): mapped(item, change) for key, item in value.items()}
        case _:
            return value


def loads(text: str) -> Value:
    """Read JSON strictly: no duplicate keys, no constants that JSON does not have."""
    value: Value = json.loads(
        text,
        object_pairs_hook=_object,
        parse_int=Number,
        parse_float=Number,
        parse_constant=_refused,
    )
    return value


def _object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    found = dict(pairs)
    assert len(found) == len(pairs), f"a key twice: {pairs}"
    return found


def _refused(constant: str) -> Value:
    raise AssertionError(f"{constant} is no JSON")


# Notations.


@dataclass(frozen=True)
class Style:
    """How a notation is laid out."""

    comma: str = ", "
    colon: str = ": "
    pad: str = ""
    """White space inside brackets that are not empty."""
    ascii: bool = False
    """Whether characters that are not ASCII are escaped."""
    quote: str = '"'


JSON_STYLES: Final = (
    Style(),
    Style(",", ":"),
    Style(ascii=True),
    Style(",\n  ", ": ", "\n "),
    Style(" ,\t", " : ", "  ", ascii=True),
)
PYTHON_STYLES: Final = (
    Style(quote='"'),
    Style(quote="'"),
    Style(",", ":", quote="'"),
    Style(" , ", " : ", " ", ascii=True, quote='"'),
)


def as_json(value: Value, style: Style) -> str:
    """Write JSON."""
    return _written(
        value, style, lambda text: _quoted(text, style), {None: "null", True: "true", False: "false"}
    )


def as_python(value: Value, style: Style) -> str:
    """Write a literal of Python."""

    def quoted(text: str) -> str:
        return style.quote + "".join(_python_character(each, style) for each in text) + style.quote

    return _written(value, style, quoted, {None: "None", True: "True", False: "False"})


def as_gemma(value: Value, style: Style, quote: str) -> str:
    """Write Gemma's form of JSON."""
    return _written(
        value,
        style,
        lambda text: quote + text + quote,
        {None: "null", True: "true", False: "false"},
        key=lambda text: text if re.fullmatch(r"[\w.\-]+(?: [\w.\-]+)*", text) else quote + text + quote,
    )


def _written(
    value: Value,
    style: Style,
    quoted: Callable[[str], str],
    words: Mapping[Any, str],
    key: Callable[[str], str] | None = None,
) -> str:
    key = key or quoted

    def write(value: Value) -> str:
        match value:
            case str():
                return quoted(value)
            case Number(text):
                return text
            case list():
                return _closed("[", style.comma.join(map(write, value)), "]", style)
            case dict():
                pairs = [f"{key(name)}{style.colon}{write(item)}" for name, item in value.items()]
                return _closed("{", style.comma.join(pairs), "}", style)
            case _:
                return words[value]

    return write(value)


def _closed(opener: str, inner: str, closer: str, style: Style) -> str:
    return f"{opener}{style.pad}{inner}{style.pad}{closer}" if inner else opener + closer


def _quoted(text: str, style: Style) -> str:
    return '"' + "".join(_character(each, style) for each in text) + '"'


def _character(character: str, style: Style) -> str:
    if ord(character) in MARKS:
        return character
    return json.dumps(character, ensure_ascii=style.ascii)[1:-1]


def _python_character(character: str, style: Style) -> str:
    if ord(character) in MARKS:
        return character
    if character in ("\\", style.quote):
        return "\\" + character
    if character.isprintable() and not (style.ascii and not character.isascii()):
        return character
    return repr(character)[1:-1] if not character.isprintable() else ascii(character)[1:-1]
