"""What a tool's JSON schema says of a parameter that a model wrote as bare text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .notation import JSON, NUMBER, PYTHON, as_json, escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ANY", "MOST_HELD", "parameter_types", "typed"]

ANY: Final = frozenset({"null", "boolean", "integer", "number", "object", "array", "string"})
MOST_HELD: Final = 320
"""Longest scalar, and longest beginning of any value, that is kept to see what it is; characters."""

JsonSchema = Any
"""A JSON schema: an object, or true or false. Clients send what they like, so nothing is taken for granted."""


def parameter_types(parameters: JsonSchema, name: str) -> frozenset[str]:
    """The JSON types that a tool's parameter may have; all where its schema does not say.

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
    return ANY


def _types(schema: JsonSchema, root: JsonSchema, known: dict[int, frozenset[str]]) -> frozenset[str]:
    """The types of a schema.

    Args:
        schema: The schema.
        root: What it may refer to parts of.
        known: Types of the schemas that were looked at; a schema that holds itself adds nothing.
    """
    if not isinstance(schema, dict):
        return ANY
    if id(schema) not in known:
        known[id(schema)] = ANY
        known[id(schema)] = _combined(schema, root, known)
    return known[id(schema)]


def _combined(schema: Mapping[str, Any], root: JsonSchema, known: dict[int, frozenset[str]]) -> frozenset[str]:
    declared = schema.get("type")
    names = [declared] if isinstance(declared, str) else declared if isinstance(declared, list) else []
    types = {name for name in names if isinstance(name, str)} & ANY
    if "number" in types:
        types.add("integer")
    if types and schema.get("nullable") is True:
        types.add("null")
    found = frozenset(types) or ANY
    if isinstance(reference := schema.get("$ref"), str):
        found &= _types(_referenced(reference, root), root, known)
    if "const" in schema:
        found &= {_type_of(schema["const"])}
    if isinstance(values := schema.get("enum"), list) and values:
        found &= {_type_of(value) for value in values}
    for keyword in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(keyword), list) and choices:
            found &= frozenset().union(*(_types(choice, root, known) for choice in choices))
    if isinstance(every := schema.get("allOf"), list):
        for part in every:
            found &= _types(part, root, known)
    # What contradicts itself says nothing.
    return found or ANY


def _alternatives(schema: JsonSchema, root: JsonSchema, seen: set[int]) -> Iterator[Mapping[str, Any]]:
    """The schema, and those that it refers to or combines; each once."""
    if not isinstance(schema, dict) or id(schema) in seen:
        return
    seen.add(id(schema))
    yield schema
    if isinstance(reference := schema.get("$ref"), str):
        yield from _alternatives(_referenced(reference, root), root, seen)
    for keyword in ("allOf", "anyOf", "oneOf"):
        if isinstance(parts := schema.get(keyword), list):
            for part in parts:
                yield from _alternatives(part, root, seen)


def _referenced(reference: str, root: JsonSchema) -> JsonSchema:
    """What `#/…` refers to, in the schema itself; anything where it can't be found."""
    if not reference.startswith("#"):
        return True
    found = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name, True) if isinstance(found, dict) else True
    return found


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


def typed(text: str, types: frozenset[str], *, as_written: bool = False) -> str:
    """A parameter's bare text as JSON: of a type that its schema allows, else the text itself as a string.

    Args:
        text: The text.
        types: The types allowed.
        as_written: Whether the model itself said that the text is JSON, which may be a string then.
    """
    value = text.strip(" \t\r\n")
    if len(value) <= MOST_HELD:
        word = value.lower()
        if "null" in types and word in ("null", "none"):
            return "null"
        if "boolean" in types and word in ("true", "false"):
            return word
        if types & {"integer", "number"} and NUMBER.fullmatch(value) and _fits(value, types):
            return value
    if value[:1] in ("{", "[") and ("object" if value[0] == "{" else "array") in types:
        written = as_json(JSON, value)
        if written is None and len(value) <= MOST_HELD:
            written = as_json(PYTHON, value)
        if written is not None:
            return written
    if as_written and value[:1] == '"' and (written := as_json(JSON, value)) is not None:
        return written
    return f'"{escape(text)}"'


def _fits(number: str, types: frozenset[str]) -> bool:
    if "number" in types or number.lstrip("-").isdigit():
        return True
    return float(number).is_integer()
