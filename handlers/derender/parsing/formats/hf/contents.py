"""Content parsers: the text of a field → a value. A struct's fields are the parser's `content_args`."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from derender.parsing.engine.format import FormatError

from .template import Word, compile_regex, convert

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Parse = Callable[[str], Any]
    """Parses text. Raises ValueError if it can't."""

__all__ = ["content_parser"]


def content_parser(scope: str, name: str, arguments: Mapping[str, Any]) -> Parse:
    """Return the content parser of a name.

    Raises:
        FormatError: There is none of that name, or its arguments are malformed.
    """
    if name not in _PARSERS:
        raise FormatError(f"{scope}: content parser must be one of {', '.join(_PARSERS)}, got {name!r}")
    scope = f"{scope}: {name}"
    return convert(scope, arguments, _PARSERS[name]).parser(scope)


class _Parser(Struct, frozen=True, forbid_unknown_fields=True):
    @abstractmethod
    def parser(self, scope: str) -> Parse:
        """Return what parses text."""


class _Text(_Parser, frozen=True):
    strip: bool = True

    def stripped(self, text: str) -> str:
        return text.strip() if self.strip else text

    def parser(self, scope: str) -> Parse:  # noqa: ARG002
        return self.stripped


class _Int(_Text, frozen=True):
    def parser(self, scope: str) -> Parse:  # noqa: ARG002
        return int


class _Float(_Text, frozen=True):
    def parser(self, scope: str) -> Parse:  # noqa: ARG002
        return float


class _Bool(_Text, frozen=True):
    def parser(self, scope: str) -> Parse:  # noqa: ARG002
        return lambda text: self.stripped(text).lower() in ("true", "1")


class _Json(_Text, frozen=True):
    unquoted_keys: bool = False
    string_delims: list[tuple[Word, Word]] = []
    """What begins and ends a string, besides quotes."""
    allow_non_json: bool = False
    """Whether text that is no JSON is the value."""

    def parser(self, scope: str) -> Parse:  # noqa: ARG002
        own = [f"{re.escape(begins)}(.*?){re.escape(ends)}" for begins, ends in self.string_delims]
        string = re.compile("|".join([*own, r'"(?:[^"\\]|\\.)*+"']), re.DOTALL)

        def parse(text: str) -> Any:
            try:
                return json.loads(self._standard(text, string), parse_constant=_refuse_constant)
            except (ValueError, RecursionError):
                if self.allow_non_json:
                    return self.stripped(text)
                raise

        return parse

    def _standard(self, text: str, string: re.Pattern[str]) -> str:
        """Write JSON of a dialect as JSON. Strings stay as they are; a group is the inside of the dialect's
        own."""
        parts, place = [], 0
        for match in string.finditer(text):
            parts.append(self._quoted(text[place : match.start()]))
            parts.append(json.dumps(match[match.lastindex]) if match.lastindex else match[0])
            place = match.end()
        return "".join([*parts, self._quoted(text[place:])])

    def _quoted(self, text: str) -> str:
        return _KEY.sub(r'\1"\2"\3', text) if self.unquoted_keys else text


_KEY: Final = re.compile(r"([{,]\s*)(\w+)(\s*:)")


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


class _ValueParser(Struct, frozen=True, forbid_unknown_fields=True):
    name: str = "text"
    args: dict[str, Any] = {}


def _value_parser(scope: str, given: _ValueParser | None) -> Parse:
    return str if given is None else content_parser(f"{scope}: value_parser", given.name, given.args)


class _Xml(_Parser, frozen=True):
    tag_pattern: str
    value_parser: _ValueParser | None = None
    merge_duplicates: bool = False

    def parser(self, scope: str) -> Parse:
        tag = compile_regex(f"{scope}: tag_pattern", self.tag_pattern)
        if "key" not in tag.groupindex:
            raise FormatError(f"{scope}: tag_pattern must have a group named 'key'")
        parse_value = _value_parser(scope, self.value_parser)

        def parse(text: str) -> Any:
            values: dict[str, Any] = {}
            for match in tag.finditer(text):
                if match["key"] is None:
                    raise ValueError("a tag without a key")
                key, value = match["key"], parse_value(match.groupdict("").get("value", ""))
                if key not in values or not self.merge_duplicates:
                    values[key] = value
                elif isinstance(values[key], list):
                    values[key].append(value)
                else:
                    values[key] = [values[key], value]
            return values

        return parse


class _Lines(_Text, frozen=True):
    line_sep: Word = "\n"
    kv_sep: Word = ":"
    value_parser: _ValueParser | None = None

    def parser(self, scope: str) -> Parse:
        parse_value, strip = _value_parser(scope, self.value_parser), self.stripped

        def parse(text: str) -> Any:
            lines = [line for line in map(strip, text.split(self.line_sep)) if self.kv_sep in line]
            pairs = [line.partition(self.kv_sep) for line in lines]
            return {strip(key): parse_value(strip(value)) for key, _, value in pairs}

        return parse


_PARSERS: Final[Mapping[str, type[_Parser]]] = {
    "text": _Text,
    "int": _Int,
    "float": _Float,
    "bool": _Bool,
    "json": _Json,
    "xml-inline": _Xml,
    "kv-lines": _Lines,
}
