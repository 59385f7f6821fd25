"""Content parsers: the text of a field → a value. The fields of a struct are the parser's `content_args`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from derender.parsing.arguments.notation import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from regex import Pattern as CompiledRegex

    from .tags import Tag

__all__ = ["Word", "compile_regex", "content_parser"]

Word = Annotated[str, Meta(min_length=1)]


def content_parser(name: str, arguments: Mapping[str, Any]) -> _Text | _Xml:
    """Return the content parser of a name. Its `parse` raises a ValueError for text that it can't parse.

    Raises:
        ValueError: There is none of that name, or its arguments are malformed.
    """
    if name not in _PARSERS:
        raise ValueError(f"content parser must be one of {', '.join(_PARSERS)}, got {name!r}")
    try:
        return msgspec.convert(arguments, _PARSERS[name])
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}: {error}") from error


def compile_regex(expression: str) -> CompiledRegex[str]:
    """Compile a regular expression.

    Raises:
        ValueError: It is malformed.
    """
    # Only templates with regular expressions pay for the import.
    from derender.parsing.patterns import regexes

    return regexes.compile_regex(expression)[0]


def _find_tags(pattern: str) -> Callable[[str], Iterator[Tag]]:
    from .tags import tag_finder

    return tag_finder(pattern)


class _Text(Struct, frozen=True, forbid_unknown_fields=True):
    strip: bool = True

    def parse(self, text: str) -> Any:
        return text.strip() if self.strip else text


class _Int(_Text, frozen=True):
    def parse(self, text: str) -> Any:
        return int(text)


class _Float(_Text, frozen=True):
    def parse(self, text: str) -> Any:
        return float(text)


class _Bool(_Text, frozen=True):
    def parse(self, text: str) -> Any:
        return super().parse(text).lower() in ("true", "1")


class _Json(_Text, frozen=True):
    unquoted_keys: bool = False
    string_delims: list[tuple[Word, Word]] = []
    """What begins and ends a string, besides quotes."""
    allow_non_json: bool = False
    """Whether text that is no JSON is the value."""

    def parse(self, text: str) -> Any:
        try:
            standard = self._standard(text)
            _check_depth(standard)
            return json.loads(standard, parse_constant=_refuse_constant)
        except ValueError:
            if self.allow_non_json:
                return super().parse(text)
            raise

    def _standard(self, text: str) -> str:
        """Write JSON of a dialect as JSON. Strings in quotes stay as they are."""
        # A string without an end takes the rest of the text, so that it is read once.
        own = [f"{re.escape(begins)}(?:(.*?){re.escape(ends)}|.*)" for begins, ends in self.string_delims]
        parts, place = [], 0
        for match in re.finditer("|".join([*own, _STRING]), text, re.DOTALL):
            parts.append(self._quote_keys(text[place : match.start()]))
            parts.append(json.dumps(match[match.lastindex]) if match.lastindex else match[0])
            place = match.end()
        return "".join([*parts, self._quote_keys(text[place:])])

    def _quote_keys(self, text: str) -> str:
        return _KEY.sub(r'\1"\2"\3', text) if self.unquoted_keys else text


_STRING: Final = r'"(?:[^"\\]|\\.)*+"?'
"""A string, or the rest of the text if it has no end."""
_NESTING: Final = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
_KEY: Final = re.compile(r"([{,]\s*)(\w+)(\s*:)")


def _check_depth(text: str) -> None:
    """Refuse JSON that is nested too deeply, before an interpreter refuses it sooner or later."""
    depth = 0
    for match in _NESTING.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


class _ValueParser(Struct, frozen=True, forbid_unknown_fields=True):
    name: str = "text"
    args: dict[str, Any] = {}

    def __post_init__(self) -> None:
        content_parser(self.name, self.args)

    def parse(self, text: str) -> Any:
        return content_parser(self.name, self.args).parse(text)


class _Xml(Struct, frozen=True, forbid_unknown_fields=True):
    tag_pattern: str
    value_parser: _ValueParser | None = None
    merge_duplicates: bool = False

    def __post_init__(self) -> None:
        _find_tags(self.tag_pattern)

    def parse(self, text: str) -> Any:
        values: dict[str, Any] = {}
        between, end = [], 0
        for start, following, key, value in _find_tags(self.tag_pattern)(text):
            between.append(text[end:start])
            end = following
            if key is None:
                raise ValueError("a tag without a key")
            if self.value_parser is not None:
                value = self.value_parser.parse(value)
            if key not in values or not self.merge_duplicates:
                values[key] = value
            elif isinstance(values[key], list):
                values[key].append(value)
            else:
                values[key] = [values[key], value]
        if "".join(between).strip() or text[end:].strip():
            raise ValueError("text outside the tags")
        return values


class _Lines(_Text, frozen=True):
    line_sep: Word = "\n"
    kv_sep: Word = ":"
    value_parser: _ValueParser | None = None

    def parse(self, text: str) -> Any:
        strip, values = super().parse, {}
        for line in map(strip, text.split(self.line_sep)):
            key, separator, value = line.partition(self.kv_sep)
            if separator:
                value = strip(value)
                values[strip(key)] = self.value_parser.parse(value) if self.value_parser else value
            elif line.strip():
                raise ValueError("a line without a key")
        return values


_PARSERS: Final[Mapping[str, type[_Text | _Xml]]] = {
    "text": _Text,
    "int": _Int,
    "float": _Float,
    "bool": _Bool,
    "json": _Json,
    "xml-inline": _Xml,
    "kv-lines": _Lines,
}
