"""The JSON types that a tool's schema allows for a parameter, and bare text converted to one of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from derender.parsing.characters import WHITESPACE

from .literals import NUMBER, escape
from .notation import JSON, PYTHON, START, end_notation, to_json

__all__ = ["ANY_TYPE", "MAX_UNDECIDED", "ParameterTypes", "Tools", "coerce", "read_types"]

T = TypeVar("T")

ANY_TYPE: Final = frozenset({"null", "boolean", "integer", "number", "object", "array", "string"})
_TYPE_NAMES: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("string", "str", "text", "char", "varchar"), frozenset({"string"})),
    **dict.fromkeys(("integer", "int", "uint", "long", "short"), frozenset({"integer"})),
    **dict.fromkeys(("number", "float", "double", "decimal"), frozenset({"number", "integer"})),
    **dict.fromkeys(("boolean", "bool"), frozenset({"boolean"})),
    **dict.fromkeys(("array", "list", "tuple", "set", "frozenset", "sequence"), frozenset({"array"})),
    **dict.fromkeys(("object", "dict", "map", "mapping"), frozenset({"object"})),
    **dict.fromkeys(("null", "none", "nonetype"), frozenset({"null"})),
    "any": ANY_TYPE,
}
"""The name of a type, in JSON schemas or programming languages → the JSON types."""
_TYPE_NAME: Final = re.compile(r"(?:[a-z_]+\.)?([a-z]+)[0-9]*(?:[\[(<]([^\])>].*))?")
"""A name, in lower case, with a module, a width and the types of its items: `int64`, `typing.List[str]`."""
_CHOICES: Final[Mapping[str, frozenset[str]]] = {"optional": frozenset({"null"}), "union": frozenset()}
"""A name whose items are the types that it stands for → what it adds to them."""
_MAX_CHOICES: Final = 200
"""Longest name that is read as a choice of types; characters."""
_QUOTED: Final = re.compile(r"""(["'])(.+)\1""")
MAX_UNDECIDED: Final = 320
"""Longest scalar, and longest beginning of any value, that is kept to see what it is; characters."""

_COMBINING: Final = frozenset({"$ref", "anyOf", "oneOf", "allOf"})

JsonSchema = Any
"""A JSON schema: an object, or true or false. Clients send what they like, so nothing is taken for granted."""


class ParameterTypes(NamedTuple):
    """The JSON types that the parameters of a tool may have."""

    declared: Mapping[str, frozenset[str]]
    """Those of each parameter that the schema declares."""
    others: frozenset[str]

    def of(self, name: str) -> frozenset[str]:
        """Return the types of a parameter; all of them if its schema does not tell."""
        return self.declared.get(name) or self.others


class Tools(dict[str, object]):
    """The tools that a request offers: name → JSON schema of the parameters. Each schema is read once."""

    def __init__(self, schemas: Mapping[str, object]) -> None:
        super().__init__(schemas)
        self._types: dict[str, ParameterTypes] = {}

    def types(self, tool: str, parameter: str) -> frozenset[str]:
        """Return the JSON types that a parameter may have; all of them if nothing tells."""
        return self._of(tool).of(parameter) if tool in self else ANY_TYPE

    def name(self, written: str) -> str:
        """Return the name of a tool that a model wrote, without quotes around it, unless it is offered so."""
        return written if written in self else _unquote(written)

    def key(self, tool: str, written: str) -> str:
        """Return the name of a parameter that a model wrote. Quotes around it are left out if the tool's schema
        declares it without them only."""
        bare = _unquote(written)
        if bare == written or tool not in self:
            return written
        declared = self._of(tool).declared
        return bare if bare in declared and written not in declared else written

    def _of(self, tool: str) -> ParameterTypes:
        if (types := self._types.get(tool)) is None:
            types = self._types[tool] = read_types(self[tool])
        return types


def _unquote(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    return quoted[2] if quoted else text


def read_types(parameters: JsonSchema) -> ParameterTypes:
    """Read the JSON types of all parameters.

    Args:
        parameters: The tool's `parameters`, a JSON schema.
    """
    reader = _Reader(parameters)
    declared = reader.read(parameters, reader.declared, {})
    others = reader.read(parameters, reader.additional, {})
    return ParameterTypes(declared or {}, others or ANY_TYPE)


Types = frozenset[str] | None
"""Types that a schema allows. None if it does not tell."""
Parts = Sequence[Sequence[JsonSchema]]
"""Schemas that a schema refers to and combines. A value has to fit one of each sequence."""
Known = dict[int, T]
"""The id of a schema → what was found in it."""
_MAX_STEPS: Final = 100_000
"""Schemas and names that a tool's schema may combine. What more of them would tell is left out."""


class _Reader:
    """Reads one tool's schema."""

    def __init__(self, root: JsonSchema) -> None:
        self._root = root
        self._known: Known[Types] = {}
        self._steps = 0

    def read(self, schema: JsonSchema, find: Callable[[JsonSchema, Parts, Known[T]], T], known: Known[T]) -> T:
        """Return what is found in a schema.

        Each schema is read once, after those that it refers to and combines. A schema that contains itself adds
        nothing.

        Args:
            schema: The schema.
            find: Returns what is found in a schema with these parts, given what was found in them.
            known: What was found in schemas that were read before.
        """
        if not isinstance(schema, dict) or _COMBINING.isdisjoint(schema):
            return find(schema, (), known)
        waiting: list[JsonSchema] = [schema]
        begun: dict[int, Parts] = {}
        inside: set[int] = set()
        while waiting:
            last = waiting[-1]
            if id(last) in known:
                waiting.pop()
            elif id(last) in begun:
                self._steps += 1
                parts = [id(part) for choices in begun[id(last)] for part in choices]
                if not inside.isdisjoint(parts) or any(part not in known for part in parts):
                    inside.add(id(last))
                known[id(last)] = find(last, begun[id(last)], known)
            else:
                begun[id(last)] = _parts(last, self._root)
                waiting += [part for choices in begun[id(last)] for part in choices if id(part) not in begun]
        found = known[id(schema)]
        if self._steps <= _MAX_STEPS:
            # They lack what the schemas tell that contain them.
            for each in inside:
                del known[each]
        return found

    def types(self, schema: JsonSchema) -> Types:
        """Return the types that a parameter's schema allows."""
        return self.read(schema, self._types, self._known)

    def _types(self, schema: JsonSchema, parts: Parts, known: Known[Types]) -> Types:
        return _combine(parts, _own_types(schema), known)

    def declared(
        self, schema: JsonSchema, parts: Parts, known: Known[dict[str, frozenset[str]]]
    ) -> dict[str, frozenset[str]]:
        """Return the types of the parameters that a schema of parameters declares."""
        properties = schema.get("properties") if isinstance(schema, dict) else None
        declared = {
            name: types
            for name, each in (properties.items() if isinstance(properties, dict) else ())
            if (types := self.types(each)) is not None
        }
        for choices in parts:
            told: dict[str, frozenset[str]] = {}
            for choice in choices:
                of_choice = known.get(id(choice), {})
                self._steps += len(of_choice)
                if self._steps > _MAX_STEPS:
                    break
                for name, types in of_choice.items():
                    told[name] = told.get(name, types) | types
            for name, types in told.items():
                declared[name] = declared.get(name, ANY_TYPE) & types
        # A schema that contradicts itself tells nothing.
        return {name: types or ANY_TYPE for name, types in declared.items()} if parts else declared

    def additional(self, schema: JsonSchema, parts: Parts, known: Known[Types]) -> Types:
        """Return the types of the parameters that a schema of parameters allows besides."""
        more = schema.get("additionalProperties") if isinstance(schema, dict) else None
        return _combine(parts, self.types(more) if isinstance(more, dict) else None, known)


def _parts(schema: JsonSchema, root: JsonSchema) -> Parts:
    """Return the schemas that a schema refers to and combines. A value has to fit one of each sequence."""
    if not isinstance(schema, dict) or _COMBINING.isdisjoint(schema):
        return []
    parts: list[Sequence[JsonSchema]] = []
    if isinstance(reference := schema.get("$ref"), str):
        parts.append((_resolve(reference, root),))
    choices = (schema.get(keyword) for keyword in ("anyOf", "oneOf"))
    parts += [each for each in choices if isinstance(each, list)]
    if isinstance(every := schema.get("allOf"), list):
        parts += [(part,) for part in every]
    return parts


def _combine(parts: Parts, own: Types, known: Known[Types]) -> Types:
    """Return the types that a schema and its parts allow."""
    types = own
    for choices in parts:
        told = [of_choice for choice in choices if (of_choice := known.get(id(choice))) is not None]
        if told:
            types = (ANY_TYPE if types is None else types).intersection(frozenset().union(*told))
    # A schema that contradicts itself tells nothing.
    return ANY_TYPE if types is not None and not types else types


def _own_types(schema: JsonSchema) -> Types:
    """Return the types that a schema allows, whatever it refers to and combines."""
    if not isinstance(schema, dict):
        return ANY_TYPE
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    types = ANY_TYPE
    if named := [_named_types(name) for name in names if isinstance(name, str)]:
        types = frozenset[str]().union(*named)
        if types and schema.get("nullable") is True:
            types |= {"null"}
        types = types or ANY_TYPE
    if "const" in schema:
        types &= {_type_of(schema["const"])}
    if isinstance(values := schema.get("enum"), list) and values:
        types &= {_type_of(value) for value in values}
    return types or ANY_TYPE


def _resolve(reference: str, root: JsonSchema) -> JsonSchema:
    """Return what `#/…` refers to within a schema; a schema that allows anything if it can't be found."""
    if not reference.startswith("#"):
        return True
    target = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        target = target.get(name, True) if isinstance(target, dict) else True
    return target


def _named_types(name: str) -> frozenset[str]:
    """Return the types that a name stands for; none if it is not known."""
    if types := _TYPE_NAMES.get(name):
        return types
    name = name.strip().lower()
    short = len(name) <= _MAX_CHOICES
    if short and len(choices := _split(name, "|")) > 1:
        return _any_named(choices)
    match = _TYPE_NAME.fullmatch(name)
    if match is None:
        return frozenset()
    if short and match[2] and (more := _CHOICES.get(match[1])) is not None:
        types = _any_named(_split(match[2][:-1], ","))
        return types and types | more
    return _TYPE_NAMES.get(match[1], frozenset())


def _any_named(names: Sequence[str]) -> frozenset[str]:
    """Return the types that one of several names stands for; none if one of them is not known."""
    named = [_named_types(name) for name in names]
    return frozenset[str]().union(*named) if all(named) else frozenset()


def _split(name: str, separator: str) -> list[str]:
    """Split the name of a type at separators that are not in its brackets."""
    depth, parts = 0, [""]
    for character in name:
        depth += (character in "[(<") - (character in "])>")
        if character == separator and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


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
