"""The JSON types that a tool's schema allows for a parameter, and bare text converted to one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from derender.parsing.characters import WHITESPACE

from .literals import NUMBER, escape
from .notation import JSON, PYTHON, START, end_notation, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ANY_TYPE", "MAX_UNDECIDED", "coerce", "parameter_types"]

ANY_TYPE: Final = frozenset({"null", "boolean", "integer", "number", "object", "array", "string"})
MAX_UNDECIDED: Final = 320
"""Longest scalar, and longest beginning of any value, that is kept to see what it is; characters."""

JsonSchema = Any
"""A JSON schema: an object, or true or false. Clients send what they like, so nothing is taken for granted."""


def parameter_types(parameters: JsonSchema, name: str) -> frozenset[str]:
    """Return the JSON types that a parameter may have; all of them if its schema does not tell.

    Args:
        parameters: The tool's `parameters`, a JSON schema.
        name: The parameter.
    """
    for schema in _alternatives(parameters, parameters, set()):
        properties = schema.get("properties")
        if isinstance(properties, dict) and name in properties:
            return _types(properties[name], parameters, {})
    if isinstance(parameters, dict) and isinstance(more := parameters.get("additionalProperties"), dict):
        return _types(more, parameters, {})
    return ANY_TYPE


def _types(schema: JsonSchema, root: JsonSchema, known: dict[int, frozenset[str]]) -> frozenset[str]:
    """Return the types that a schema allows.

    Args:
        schema: The schema.
        root: The schema that references point into.
        known: The types of schemas seen before. A schema that contains itself adds nothing.
    """
    if not isinstance(schema, dict):
        return ANY_TYPE
    if id(schema) not in known:
        known[id(schema)] = ANY_TYPE
        known[id(schema)] = _combine(schema, root, known)
    return known[id(schema)]


def _combine(schema: Mapping[str, Any], root: JsonSchema, known: dict[int, frozenset[str]]) -> frozenset[str]:
    declared = schema.get("type")
    names = [declared] if isinstance(declared, str) else declared if isinstance(declared, list) else []
    named = {name for name in names if isinstance(name, str)} & ANY_TYPE
    if "number" in named:
        named.add("integer")
    if named and schema.get("nullable") is True:
        named.add("null")
    types = frozenset(named) or ANY_TYPE
    if isinstance(reference := schema.get("$ref"), str):
        types &= _types(_resolve(reference, root), root, known)
    if "const" in schema:
        types &= {_type_of(schema["const"])}
    if isinstance(values := schema.get("enum"), list) and values:
        types &= {_type_of(value) for value in values}
    for keyword in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(keyword), list) and choices:
            types &= frozenset().union(*(_types(choice, root, known) for choice in choices))
    if isinstance(every := schema.get("allOf"), list):
        for part in every:
            types &= _types(part, root, known)
    # A schema that contradicts itself tells nothing.
    return types or ANY_TYPE


def _alternatives(schema: JsonSchema, root: JsonSchema, seen: set[int]) -> Iterator[Mapping[str, Any]]:
    """Yield the schema, and those it refers to or combines; each once."""
    if not isinstance(schema, dict) or id(schema) in seen:
        return
    seen.add(id(schema))
    yield schema
    if isinstance(reference := schema.get("$ref"), str):
        yield from _alternatives(_resolve(reference, root), root, seen)
    for keyword in ("allOf", "anyOf", "oneOf"):
        if isinstance(parts := schema.get(keyword), list):
            for part in parts:
                yield from _alternatives(part, root, seen)


def _resolve(reference: str, root: JsonSchema) -> JsonSchema:
    """Return what `#/…` refers to within a schema; a schema that allows anything if it can't be found."""
    if not reference.startswith("#"):
        return True
    target = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        target = target.get(name, True) if isinstance(target, dict) else True
    return target


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def coerce(text: str, types: frozenset[str], *, declared_json: bool = False) -> str:
    """Convert a parameter's bare text to JSON of a type that its schema allows, or else to a string.

    Args:
        text: The text.
        types: The types allowed.
        declared_json: Whether the model itself declared the text to be JSON. It may be a JSON string then.
    """
    value = text.strip(WHITESPACE)
    if len(value) <= MAX_UNDECIDED:
        word = value.lower()
        if "null" in types and word in ("null", "none"):
            return "null"
        if "boolean" in types and word in ("true", "false"):
            return word
        if types & {"integer", "number"} and NUMBER.fullmatch(value) and _fits(value, types):
            return value
    if value[:1] in ("{", "[") and ("object" if value[0] == "{" else "array") in types:
        json = to_json(JSON, value)
        if json is None and len(value) <= MAX_UNDECIDED:
            json = to_json(PYTHON, value)
        if json is None and "string" not in types:
            json = end_notation(JSON, START, value)
        if json is not None:
            return json
    if declared_json and value[:1] == '"' and (json := to_json(JSON, value)) is not None:
        return json
    return f'"{escape(text)}"'


def _fits(number: str, types: frozenset[str]) -> bool:
    if "number" in types or number.lstrip("-").isdigit():
        return True
    return float(number).is_integer()
