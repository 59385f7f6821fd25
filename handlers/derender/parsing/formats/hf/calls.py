"""The text of a field → tool calls."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from derender.parsing.arguments.literals import escape
from derender.parsing.arguments.notation import JSON, to_json
from derender.parsing.arguments.schema import ANY_TYPE, coerce
from derender.parsing.engine.state import Call

from .contents import content_parser
from .template import PLACEHOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from derender.parsing.arguments.schema import Tools
    from derender.parsing.engine.format import Reader

    from .template import Field

__all__ = ["call_reader"]

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""A character that a JSON escape may stand for, but no text can hold."""


def call_reader(field: Field) -> Reader:
    """Return what reads the calls of a field."""
    parser = content_parser(field.content, field.content_args)

    def read(body: str, captures: Mapping[str, str], tools: Tools) -> list[Call] | None:
        try:
            value = _transform_body(field, parser.parse(body), captures)
            return [_to_call(each, tools) for each in (value if isinstance(value, list) else [value])]
        except ValueError:
            return None

    return read


def _transform_body(field: Field, value: Any, captures: Mapping[str, str]) -> Any:
    if field.transform is None:
        return value
    if not field.transform_each:
        return _fill(field.transform, {**captures, "content": value})
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError("not a list of objects")
    return [_fill(field.transform, {**captures, **each}) for each in value]


def _fill(transform: object, values: Mapping[str, Any]) -> Any:
    """Return a transform with its placeholders replaced by values."""
    match transform:
        case dict():
            return {key: _fill(each, values) for key, each in transform.items()}
        case list():
            return [_fill(each, values) for each in transform]
        case str() if PLACEHOLDER.fullmatch(transform):
            value: Any = values
            for key in transform[1:-1].split("."):
                if not isinstance(value, dict) or key not in value:
                    raise ValueError(f"no {transform}")
                value = value[key]
            return value
    return transform


def _to_call(value: object, tools: Tools) -> Call:
    """Make a call of `{"function": {"name": …, "arguments": …}}`, or of what is in `function`."""
    function = value.get("function", value) if isinstance(value, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise ValueError("no name")
    # Refuses a name that is no Unicode.
    name.encode()
    arguments = function.get("arguments", function.get("parameters"))
    match arguments:
        case None:
            return Call(name, arguments="{}")
        case dict():
            pairs = [
                f'"{escape(key)}": {_argument(each, tools.types(name, key))}' for key, each in arguments.items()
            ]
            return Call(name, arguments=f"{{{', '.join(pairs)}}}")
        case str():
            written = to_json(JSON, arguments)
            if written is not None and written.startswith("{"):
                return Call(name, arguments=written)
    raise ValueError("arguments are no object")


def _argument(value: object, types: frozenset[str]) -> str:
    """Write an argument as JSON. A string has one of the types that the tool's schema allows, if it tells."""
    if isinstance(value, str) and types != ANY_TYPE:
        return coerce(value, types)
    if isinstance(value, list) and "array" not in types:
        # Several values of one key.
        return f"[{', '.join([_argument(each, types) for each in value])}]"
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", written)
