r"""What a tokenizer's own response template describes (transformers 5.13 and later, "Response parsing").

    {"start_anchor": "<|im_start|>assistant\n",
     "fields": {"thinking": {"open": "<think>", "close": "</think>"},
                "tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "repeats": true,
                               "content": "json", "transform": {"type": "function", "function": "{content}"}},
                "content": {"close": "<|im_end|>"}}}

A field is a region between what opens it and what closes it; the one that nothing opens is what is left over.
Where all of that is literal, its control tokens are markers, as in any format. A regular expression is written
for text, so a template that has one is matched in the text, control tokens and all.

Texts of a field that repeats follow each other, without its `join`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from derender.parsing.arguments.notation import JSON, as_json, escape
from derender.parsing.arguments.schema import ANY, parameter_types, typed
from derender.parsing.engine.format import Act, Edge, Format, FormatError, Region, Yields
from derender.parsing.engine.patterns import SPACE, Regular
from derender.parsing.engine.state import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from regex import Pattern as CompiledRegex

    from derender.parsing.engine.format import Reader
    from derender.parsing.engine.patterns import Pattern
    from derender.vocabulary import Vocabulary

    Parse = Callable[[str], Any]
    """A content parser. It raises ValueError for what it can't read."""

__all__ = ["of_vocabulary"]

_SCOPE: Final = "response_template"
_CALLS: Final = "tool_calls"
_YIELDS: Final = {
    "content": Yields.CONTENT,
    "reasoning_content": Yields.REASONING,
    "reasoning": Yields.REASONING,
    "thinking": Yields.REASONING,
    _CALLS: Yields.BODY,
}
"""Name of a field → what it is. Others are no part of the message that clients get."""
_SPACE: Final = r"[ \t\r\n]{0,128}"
"""What a pattern itself has of it comes first."""

_Types = type | tuple[type, ...]
_TEMPLATE: Final[Mapping[str, _Types]] = {
    "version": int,
    "defaults": dict,
    "fields": dict,
    "start_anchor": (str, list),
    "start_anchor_pattern": str,
}
_FIELD: Final[Mapping[str, _Types]] = {
    "open": (str, list),
    "open_pattern": str,
    "close": (str, list),
    "close_pattern": str,
    "content": str,
    "content_args": dict,
    "repeats": bool,
    "join": (str, type(None)),
    "optional": bool,
    "transform": (str, dict, list, type(None)),
    "transform_each": bool,
}
_TEXT_ARGUMENTS: Final[Mapping[str, _Types]] = {"strip": bool}
_ARGUMENTS: Final[Mapping[str, Mapping[str, _Types]]] = {
    "text": _TEXT_ARGUMENTS,
    "int": _TEXT_ARGUMENTS,
    "float": _TEXT_ARGUMENTS,
    "bool": _TEXT_ARGUMENTS,
    "json": {"unquoted_keys": bool, "string_delims": list, "allow_non_json": bool, **_TEXT_ARGUMENTS},
    "xml-inline": {"tag_pattern": str, "value_parser": (dict, type(None)), "merge_duplicates": bool},
    "kv-lines": {"line_sep": str, "kv_sep": str, "value_parser": (dict, type(None)), **_TEXT_ARGUMENTS},
}
"""Content parser → its arguments."""
_MOST_SHOWN: Final = 60
"""Characters of what is wrong in a template that its error shows."""
_VALUE_PARSER: Final[Mapping[str, _Types]] = {"name": str, "args": dict}


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    strip: bool
    """Whether white space at its ends is no part of it."""
    opens: tuple[Pattern | Regular, ...] = ()
    """What opens it; nothing opens the field that is left over."""
    closes: tuple[Pattern | Regular, ...] = ()
    """What closes it; where nothing does, the end of the output."""
    parse: Parse = str
    transform: object = None
    each: bool = False
    """Whether the transform is that of each item of a list."""

    @property
    def yields(self) -> Yields:
        """What it is."""
        return _YIELDS.get(self.name, Yields.NOTHING)


def of_vocabulary(vocabulary: Vocabulary) -> Format:
    """The format that a vocabulary's response template describes.

    Raises:
        FormatError: There is none, or it is malformed.
    """
    template = vocabulary.manifest.response_template
    if template is None:
        raise FormatError("the layer's tokenizer has no response_template")
    _check(_SCOPE, template, _TEMPLATE)
    if template.get("version", 1) != 1:
        raise FormatError(f"{_SCOPE}: version {template['version']!r} is not known, only version 1 is")
    if not template.get("fields"):
        raise FormatError(f"{_SCOPE}: there are no fields")
    fields = [_field(name, template["fields"][name]) for name in sorted(template["fields"])]
    left_over = [field for field in fields if not field.opens]
    if len(left_over) > 1:
        names = ", ".join(repr(field.name) for field in left_over)
        raise FormatError(f"{_SCOPE}: only one field may have neither open nor open_pattern, not {names}")
    if left_over and left_over[0].yields is Yields.BODY:
        raise FormatError(f"{_SCOPE}: field {_CALLS!r} has neither open nor open_pattern")
    anchors = _delimiter(_SCOPE, template, "start_anchor")
    if not anchors:
        raise FormatError(f"{_SCOPE}: there is neither start_anchor nor start_anchor_pattern")
    delimiters = [each for field in fields for each in (*field.opens, *field.closes)]
    plain = any(isinstance(each, Regular) for each in (*anchors, *delimiters))
    regions = _regions(fields, left_over[0] if left_over else None)
    return Format(
        markers=tuple(_markers(template, vocabulary, plain=plain)),
        content=regions["content"].edges,
        regions=regions,
        whole=True,
        plain=plain,
        anchors=anchors,
    )


def _markers(template: Mapping[str, Any], vocabulary: Vocabulary, *, plain: bool) -> Iterator[str]:
    strings = [string for written in _strings(template) for string in (written, written.replace("\\", ""))]
    for text, token_id in vocabulary.added_tokens().items():
        # What an expression can match is not known, and of special tokens only markers are in the text.
        if token_id in vocabulary.special if plain else text.strip() and any(text in each for each in strings):
            yield text


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)


# Regions.


def _regions(fields: Sequence[_Field], left_over: _Field | None) -> dict[str, Region]:
    explicit = [field for field in fields if field.opens]
    rest = left_over or _Field(
        "content" if all(field.name != "content" for field in fields) else "", strip=True
    )
    edges = [
        Edge(
            _spaced(pattern, before=rest.strip, after=field.strip),
            _region_name(field),
            Act.BEGIN if field.yields is Yields.BODY else Act.NONE,
        )
        for field in explicit
        for pattern in field.opens
    ]
    # What opens a field may begin with white space itself.
    spaced = rest.strip and not any(
        _begins_with_space(pattern) for field in explicit for pattern in field.opens
    )
    edges += [Edge(_spaced(pattern, before=rest.strip, after=spaced), "content") for pattern in rest.closes]
    regions = {"content": Region(rest.yields, _ordered(edges))}
    for field in explicit:
        closing = [
            Edge(
                _spaced(pattern, before=field.strip, after=spaced),
                # After the reasoning the answer begins, which may be the JSON of guided decoding.
                "answer" if field.yields is Yields.REASONING else "content",
                Act.CLOSE if field.yields is Yields.BODY else Act.NONE,
            )
            for pattern in field.closes
        ]
        body = field.yields is Yields.BODY
        regions[_region_name(field)] = Region(
            field.yields, _ordered(closing), ends=body, reader=_reader(field) if body else None
        )
    return regions


def _spaced(pattern: Pattern | Regular, *, before: bool, after: bool) -> Pattern | Regular:
    """A pattern with the white space that is no part of the texts around it."""
    if isinstance(pattern, Regular):
        begin, end = (_SPACE if spaced else "" for spaced in (before, after))
        return Regular(f"{begin}(?:{pattern.expression}){end}")
    return (*((SPACE,) if before else ()), *pattern, *((SPACE,) if after else ()))


def _begins_with_space(pattern: Pattern | Regular) -> bool:
    if not isinstance(pattern, Regular):
        return _literal(pattern)[0].isspace()
    matches = _compiled(_SCOPE, "pattern", pattern.expression).match
    begins = {character for character in _ASCII if matches(character, partial=True)}
    return bool(begins) and "".join(begins).isspace()


_ASCII: Final = [chr(code) for code in range(128)]


def _region_name(field: _Field) -> str:
    return f"field {field.name}"


def _ordered(edges: Sequence[Edge]) -> tuple[Edge, ...]:
    """Of literals that begin alike, the longest is read."""
    if any(isinstance(edge.pattern, Regular) for edge in edges):
        return tuple(edges)
    return tuple(sorted(edges, key=lambda edge: -len(_literal(edge.pattern))))


def _literal(pattern: Pattern | Regular) -> str:
    return "".join([part for part in pattern if isinstance(part, str)])


# Calls.


def _reader(field: _Field) -> Reader:
    def read(body: str, captures: Mapping[str, str], tools: Mapping[str, object]) -> tuple[Call, ...] | None:
        try:
            value = _transformed_body(field, body, captures)
            return tuple(_call(each, tools) for each in (value if isinstance(value, list) else [value]))
        except (ValueError, RecursionError):
            return None

    return read


def _transformed_body(field: _Field, body: str, captures: Mapping[str, str]) -> Any:
    value = field.parse(body)
    if field.transform is None:
        return value
    if not field.each:
        return _transformed(field.transform, {**captures, "content": value})
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError("no list of objects")
    return [_transformed(field.transform, {**captures, **each}) for each in value]


def _call(value: object, tools: Mapping[str, object]) -> Call:
    """A call of `{"function": {"name": …, "arguments": …}}`, or of what is in it."""
    function = value.get("function", value) if isinstance(value, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise ValueError("no name")
    name.encode()
    arguments = function.get("arguments", function.get("parameters"))
    match arguments:
        case None:
            return Call(name, arguments="{}")
        case dict():
            written = [
                f'"{escape(key)}": {_argument(each, tools.get(name), key)}' for key, each in arguments.items()
            ]
            return Call(name, arguments=f"{{{', '.join(written)}}}")
        case str():
            own = as_json(JSON, arguments)
            if own is not None and own.startswith("{"):
                return Call(name, arguments=own)
    raise ValueError("arguments that are no object")


def _argument(value: object, parameters: object, key: str) -> str:
    """An argument as JSON. What is a string has the type that the tool's schema says, if it says one."""
    types = parameter_types(parameters, key)
    if isinstance(value, str) and types != ANY:
        return typed(value, types)
    if isinstance(value, list) and "array" not in types:
        # Several of one key.
        return f"[{', '.join([_argument(each, parameters, key) for each in value])}]"
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", written)


_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""What an escape of JSON may stand for, and no text can hold."""


# Transforms: values in which strings stand for others.

_PLACEHOLDER: Final = re.compile(r"\{(\w+(?:\.\w+)*)\}")


def _transformed(transform: object, values: Mapping[str, Any]) -> Any:
    match transform:
        case dict():
            return {key: _transformed(each, values) for key, each in transform.items()}
        case list():
            return [_transformed(each, values) for each in transform]
        case str() if placeholder := _PLACEHOLDER.fullmatch(transform):
            value: Any = values
            for key in placeholder[1].split("."):
                if not isinstance(value, dict) or key not in value:
                    raise ValueError(f"no {transform}")
                value = value[key]
            return value
    return transform


def _check_transform(scope: str, transform: object, names: set[str] | None) -> None:
    for string in _strings(transform):
        placeholder = _PLACEHOLDER.search(string)
        if placeholder is None:
            continue
        if placeholder[0] != string:
            raise FormatError(f"{scope}: transform has {string!r}, of which only a part is a placeholder")
        if names is not None and (name := placeholder[1].split(".")[0]) not in names:
            raise FormatError(
                f"{scope}: transform has {string!r}, but {name!r} is neither content nor a group of a pattern"
            )


# Content parsers.


def _parser(scope: str, name: str, arguments: Mapping[str, Any]) -> Parse:
    if name not in _ARGUMENTS:
        raise FormatError(f"{scope}: no content parser {name!r}; there are {', '.join(_ARGUMENTS)}")
    scope = f"{scope}: {name}"
    _check(scope, arguments, _ARGUMENTS[name])
    strip = _strip if arguments.get("strip", True) else str
    match name:
        case "int":
            return lambda text: int(strip(text))
        case "float":
            return lambda text: float(strip(text))
        case "bool":
            return lambda text: strip(text).lower() in ("true", "1")
        case "json":
            return _json_parser(scope, arguments, strip)
        case "xml-inline":
            return _xml_parser(scope, arguments)
        case "kv-lines":
            return _lines_parser(scope, arguments, strip)
        case _:
            return strip


def _strip(text: str) -> str:
    return text.strip()


def _json_parser(scope: str, arguments: Mapping[str, Any], strip: Callable[[str], str]) -> Parse:
    delimiters = arguments.get("string_delims", [])
    for pair in delimiters:
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(isinstance(each, str) and each for each in pair)
        ):
            raise FormatError(f"{scope}: string_delims has {pair!r}, which is no pair of strings")
    own = [f"{re.escape(begins)}(.*?){re.escape(ends)}" for begins, ends in delimiters]
    strings = re.compile("|".join([*own, r'"(?:[^"\\]|\\.)*+"']), re.DOTALL)
    unquoted = bool(arguments.get("unquoted_keys"))

    def parse(text: str) -> Any:
        written = _as_standard(text, strings, unquoted=unquoted) if unquoted or delimiters else text
        try:
            return json.loads(written, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            if arguments.get("allow_non_json"):
                return strip(text)
            raise

    return parse


_KEY: Final = re.compile(r"([{,]\s*)(\w+)(\s*:)")


def _as_standard(text: str, strings: re.Pattern[str], *, unquoted: bool) -> str:
    """JSON of a dialect as JSON. What is in strings is left alone.

    Args:
        text: The text.
        strings: What a string is; of the dialect's own, the group is what is in it.
        unquoted: Whether keys may be without quotes.
    """
    parts, place = [], 0
    for match in strings.finditer(text):
        parts.append(_quoted_keys(text[place : match.start()]) if unquoted else text[place : match.start()])
        parts.append(json.dumps(match[match.lastindex]) if match.lastindex else match[0])
        place = match.end()
    return "".join([*parts, _quoted_keys(text[place:]) if unquoted else text[place:]])


def _quoted_keys(text: str) -> str:
    return _KEY.sub(r'\1"\2"\3', text)


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _xml_parser(scope: str, arguments: Mapping[str, Any]) -> Parse:
    if "tag_pattern" not in arguments:
        raise FormatError(f"{scope}: there is no tag_pattern")
    tag = _compiled(scope, "tag_pattern", arguments["tag_pattern"])
    if "key" not in tag.groupindex:
        raise FormatError(f"{scope}: tag_pattern has no group 'key'")
    value_parser = _value_parser(scope, arguments)
    merge = arguments.get("merge_duplicates", False)

    def parse(text: str) -> Any:
        values: dict[str, Any] = {}
        for match in tag.finditer(text):
            groups = match.groupdict("")
            key, value = groups["key"], value_parser(groups.get("value", ""))
            if match["key"] is None:
                raise ValueError("a tag without a key")
            if key not in values or not merge:
                values[key] = value
            elif isinstance(values[key], list):
                values[key].append(value)
            else:
                values[key] = [values[key], value]
        return values

    return parse


def _lines_parser(scope: str, arguments: Mapping[str, Any], strip: Callable[[str], str]) -> Parse:
    line_end, colon = arguments.get("line_sep", "\n"), arguments.get("kv_sep", ":")
    if not line_end or not colon:
        raise FormatError(f"{scope}: line_sep and kv_sep can't be empty")
    value_parser = _value_parser(scope, arguments)

    def parse(text: str) -> Any:
        pairs = [line.partition(colon) for line in map(strip, text.split(line_end)) if colon in line]
        return {strip(key): value_parser(strip(value)) for key, _, value in pairs}

    return parse


def _value_parser(scope: str, arguments: Mapping[str, Any]) -> Parse:
    given = arguments.get("value_parser")
    if given is None:
        return str
    _check(f"{scope}: value_parser", given, _VALUE_PARSER)
    return _parser(f"{scope}: value_parser", given.get("name", "text"), given.get("args", {}))


# What a template says.


def _field(name: str, given: object) -> _Field:
    scope = f"{_SCOPE}: field {name!r}"
    if not isinstance(given, dict):
        raise FormatError(f"{scope}: it is {_short(given)}; it may be {_types_text(dict)}")
    _check(scope, given, _FIELD)
    parser, arguments = given.get("content", "text"), given.get("content_args", {})
    field = _Field(
        name=name,
        opens=_delimiter(scope, given, "open"),
        closes=_delimiter(scope, given, "close"),
        parse=_parser(scope, parser, arguments),
        strip=parser != "text" or arguments.get("strip", True),
        transform=given.get("transform"),
        each=given.get("transform_each", False),
    )
    groups = {
        group
        for pattern in (*field.opens, *field.closes)
        if isinstance(pattern, Regular)
        for group in _compiled(scope, "pattern", pattern.expression).groupindex
    }
    if field.transform is None:
        if groups:
            raise FormatError(
                f"{scope}: its patterns have groups, {', '.join(sorted(groups))}, but no transform has them"
            )
        if field.each:
            raise FormatError(f"{scope}: transform_each without transform")
    _check_transform(scope, field.transform, None if field.each else {"content", *groups})
    if given.get("join") is not None and not given.get("repeats", False):
        raise FormatError(f"{scope}: join without repeats")
    if field.yields in (Yields.CONTENT, Yields.REASONING) and field.transform not in (None, "{content}"):
        raise FormatError(f"{scope}: transform is for {_CALLS}; this is text, which is given as it comes")
    return field


def _delimiter(scope: str, given: Mapping[str, Any], key: str) -> tuple[Pattern | Regular, ...]:
    expression = f"{key}_pattern"
    if key in given and expression in given:
        raise FormatError(f"{scope}: there are both {key} and {expression}")
    if expression in given:
        _compiled(scope, expression, given[expression])
        return (Regular(given[expression]),)
    if key not in given:
        return ()
    literals = given[key] if isinstance(given[key], list) else [given[key]]
    if not literals or not all(isinstance(literal, str) and literal for literal in literals):
        raise FormatError(
            f"{scope}: {key} is {given[key]!r}; it may be a text, or a list of texts, and none empty"
        )
    return tuple((literal,) for literal in sorted(set(literals), key=lambda literal: (-len(literal), literal)))


def _compiled(scope: str, key: str, expression: str) -> CompiledRegex[str]:
    # Only templates with regular expressions pay for the import.
    from derender.parsing.engine.regexes import compiled, error

    try:
        return compiled(expression)[0]
    except error as fault:
        raise FormatError(f"{scope}: {key} is no regular expression: {fault}") from fault


def _check(scope: str, given: Mapping[str, Any], known: Mapping[str, _Types]) -> None:
    for key, value in given.items():
        if key not in known:
            raise FormatError(f"{scope}: {key!r} is not known; there may be {', '.join(known)}")
        types = known[key]
        if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
            raise FormatError(f"{scope}: {key} is {_short(value)}; it may be {_types_text(types)}")


def _types_text(types: _Types) -> str:
    names = {str: "a text", int: "an integer", bool: "true or false", list: "a list", dict: "an object"}
    each = types if isinstance(types, tuple) else (types,)
    return " or ".join(names.get(one, "null") for one in each)


def _short(value: object) -> str:
    written = repr(value)
    return written if len(written) <= _MOST_SHOWN else f"{written[:_MOST_SHOWN]}…"
