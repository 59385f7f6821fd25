"""What a tool's schema says of a parameter, and bare text read by it."""

from __future__ import annotations

import functools
import itertools
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.parsing.arguments import schema
from derender.parsing.arguments.schema import ANY_TYPE, MAX_UNDECIDED, Tools, coerce, read_types
from tests.support.work import growth

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBER: Final = {"integer", "number"}
NODES: Final = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}


def types_of(parameters: object, name: str) -> frozenset[str]:
    """Return the types that a parameter may have."""
    return read_types(parameters).of(name)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"type": "string"}, {"string"}, id="a type"),
        pytest.param({"type": "integer"}, {"integer"}, id="integer"),
        pytest.param({"type": "number"}, NUMBER, id="an integer is a number"),
        pytest.param({"type": ["string", "null"]}, {"string", "null"}, id="several types"),
        pytest.param({"type": "string", "nullable": True}, {"string", "null"}, id="nullable"),
        pytest.param({"type": "string", "nullable": False}, {"string"}, id="not nullable"),
        pytest.param({"enum": ["a", "b"]}, {"string"}, id="enum"),
        pytest.param({"enum": ["a", 1, None]}, {"string", "integer", "null"}, id="mixed enum"),
        pytest.param({"type": "string", "enum": [1, 2]}, ANY_TYPE, id="an enum of another type"),
        pytest.param({"type": "string", "enum": []}, {"string"}, id="empty enum"),
        pytest.param({"const": True}, {"boolean"}, id="const"),
        pytest.param({"const": 1.5}, {"number"}, id="const number"),
        pytest.param({"const": {"a": 1}}, {"object"}, id="const object"),
        pytest.param({"const": [1]}, {"array"}, id="const array"),
        pytest.param({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"string", "null"}, id="anyOf"),
        pytest.param({"oneOf": [{"type": "number"}, {"const": "x"}]}, {*NUMBER, "string"}, id="oneOf"),
        pytest.param({"anyOf": [{"type": "string"}, {}]}, ANY_TYPE, id="anyOf with anything"),
        pytest.param(
            {"type": ["string", "integer"], "anyOf": [{"type": "integer"}, {"type": "null"}]},
            {"integer"},
            id="a type and anyOf",
        ),
        pytest.param({"allOf": [{"type": ["string", "null"]}, {"type": "string"}]}, {"string"}, id="allOf"),
        pytest.param({"allOf": [{"type": "number"}, {"type": "integer"}]}, {"integer"}, id="allOf, narrower"),
        pytest.param({"allOf": [{"type": "string"}, {"type": "array"}]}, ANY_TYPE, id="a contradiction"),
        pytest.param({"$ref": "#/$defs/city"}, {"string"}, id="reference"),
        pytest.param({"$ref": "#/definitions/a~1b~0c"}, {"array"}, id="reference with escapes"),
        pytest.param({"$ref": "#/$defs/again"}, {"string"}, id="reference to a reference"),
        pytest.param({"$ref": "#/$defs/loop"}, ANY_TYPE, id="reference to itself"),
        pytest.param({"$ref": "#/$defs/none"}, ANY_TYPE, id="reference to nothing"),
        pytest.param({"$ref": "https://example.com/schema"}, ANY_TYPE, id="reference elsewhere"),
        pytest.param(
            {"anyOf": [{"$ref": "#/$defs/city"}, {"type": "null"}]}, {"string", "null"}, id="in anyOf"
        ),
        pytest.param({}, ANY_TYPE, id="empty schema"),
        pytest.param({"description": "a city"}, ANY_TYPE, id="no type"),
        pytest.param(True, ANY_TYPE, id="true"),
        pytest.param(False, ANY_TYPE, id="false"),
        pytest.param(None, ANY_TYPE, id="null"),
        pytest.param("string", ANY_TYPE, id="a string"),
        pytest.param({"type": "color"}, ANY_TYPE, id="unknown type"),
        pytest.param({"type": ["color", "string"]}, {"string"}, id="an unknown type among others"),
        pytest.param({"type": "str", "nullable": True}, {"string", "null"}, id="nullable, of another name"),
        pytest.param({"type": [["string"], 1]}, ANY_TYPE, id="types that are none"),
        pytest.param(
            {"type": {"string": 1}, "enum": 3, "anyOf": {}, "allOf": 1, "$ref": 2}, ANY_TYPE, id="nonsense"
        ),
        pytest.param({"anyOf": [1, None]}, ANY_TYPE, id="alternatives that are none"),
    ],
)
def test_a_parameter_has_the_types_its_schema_allows(schema: object, expected: set[str]) -> None:
    parameters = {
        "properties": {"city": schema},
        "$defs": {
            "city": {"type": "string"},
            "again": {"$ref": "#/$defs/city"},
            "loop": {"$ref": "#/$defs/loop"},
        },
        "definitions": {"a/b~c": {"type": "array"}},
    }
    assert types_of(parameters, "city") == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("string str text char varchar STRING Str varchar(255)", {"string"}),
        ("integer int long short int64 uint8 Integer", {"integer"}),
        ("number float double decimal float32 Number decimal(10,2)", NUMBER),
        ("boolean bool Boolean", {"boolean"}),
        ("array list tuple set list[str] List[int] array<string> tuple[int,...]", {"array"}),
        ("object dict map dict[str,int] Map<string,number>", {"object"}),
        ("null none None NoneType", {"null"}),
        ("any Any", ANY_TYPE),
        (
            "Optional[str] str|None None|str typing.Optional[str] Union[str,None] Optional[char(1)]",
            {"string", "null"},
        ),
        ("Optional[int] Optional[Optional[int]] Union[int|None]", {"integer", "null"}),
        ("Union[str,int] str|int t.Union[int,str] string|integer", {"string", "integer"}),
        ("typing.List[str] Sequence[Optional[str]] list[str|None] FrozenSet[int]", {"array"}),
        ("Dict[str,Any] Mapping[str,Union[str,int]] dict[str,int|None]", {"object"}),
        ("Union[List[str],Dict[str,int]]", {"array", "object"}),
        ("string[] date Optional Optional[date] str|date Union[str,Thing] str| |", ANY_TYPE),
        ("Optional[" * 99_999, ANY_TYPE),
    ],
)
def test_types_may_have_the_names_of_programming_languages(names: str, expected: set[str]) -> None:
    for name in names.split():
        assert types_of({"properties": {"city": {"type": name}}}, "city") == expected, name


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        pytest.param(None, ANY_TYPE, id="no schema"),
        pytest.param(True, ANY_TYPE, id="true"),
        pytest.param([], ANY_TYPE, id="a list"),
        pytest.param({"properties": None}, ANY_TYPE, id="no properties"),
        pytest.param({"properties": {"town": {"type": "string"}}}, ANY_TYPE, id="other properties"),
        pytest.param({"additionalProperties": {"type": "integer"}}, {"integer"}, id="additional"),
        pytest.param({"additionalProperties": False}, ANY_TYPE, id="none additional"),
        pytest.param(
            {"properties": {"city": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
            {"string"},
            id="before additional",
        ),
        pytest.param({"allOf": [{}, {"properties": {"city": {"type": "null"}}}]}, {"null"}, id="in allOf"),
        pytest.param({"anyOf": [{"properties": {"city": {"type": "null"}}}]}, {"null"}, id="in anyOf"),
        pytest.param(
            {"anyOf": [{"properties": {"city": {"type": name}}} for name in ("string", "integer")]},
            {"string", "integer"},
            id="in several branches",
        ),
        pytest.param(
            {"oneOf": [{"properties": {"town": {}}}, {}, True, {"properties": {"city": {"type": "null"}}}]},
            {"null"},
            id="not in all branches",
        ),
        pytest.param(
            {
                "properties": {"city": {"type": ["string", "integer", "null"]}},
                "anyOf": [{"properties": {"city": {"type": name}}} for name in ("string", "integer")],
                "oneOf": [{"properties": {"city": {"type": ["integer", "null"]}}}],
            },
            {"integer"},
            id="in branches and beside them",
        ),
        pytest.param(
            {"allOf": [{"properties": {"city": {"type": types}}} for types in (["string", "null"], "string")]},
            {"string"},
            id="in all of allOf",
        ),
        pytest.param(
            {"allOf": [{"properties": {"city": {"type": name}}} for name in ("string", "array")]},
            ANY_TYPE,
            id="a contradiction",
        ),
        pytest.param(
            {"allOf": [{"$ref": "#/$defs/one"}], "$defs": {"one": {"additionalProperties": {"type": "null"}}}},
            {"null"},
            id="additional to what is referred to",
        ),
        pytest.param(
            {"$ref": "#/$defs/all", "$defs": {"all": {"properties": {"city": {"type": "null"}}}}},
            {"null"},
            id="referred to",
        ),
        pytest.param({"$ref": "#"}, ANY_TYPE, id="refers to itself"),
        pytest.param({"allOf": 1, "anyOf": [2]}, ANY_TYPE, id="nonsense"),
    ],
)
def test_a_parameter_is_found_wherever_schemas_declare_it(parameters: object, expected: set[str]) -> None:
    assert types_of(parameters, "city") == expected


@pytest.mark.parametrize(
    ("types", "text", "expected"),
    [
        # strings
        ("string", "Paris", '"Paris"'),
        ("string", " Paris\n", r'" Paris\n"'),
        ("string", "", '""'),
        ("string", "5", '"5"'),
        ("string", "true", '"true"'),
        ("string", "null", '"null"'),
        ("string", '{"a": 1}', r'"{\"a\": 1}"'),
        ("string", '"a"', r'"\"a\""'),
        # integers and numbers
        ("integer", "5", "5"),
        ("integer", " -5\n", "-5"),
        ("integer", "5.0", "5.0"),
        ("integer", "1e3", "1e3"),
        ("integer", "1e20", "1e20"),
        ("integer", "5.5", '"5.5"'),
        ("integer", "5e-1", '"5e-1"'),
        ("integer", "1e400", '"1e400"'),
        ("integer", "05", '"05"'),
        ("integer", "+5", '"+5"'),
        ("integer", "1_000", '"1_000"'),
        ("integer", "five ", '"five "'),
        ("integer", "", '""'),
        ("integer number", "5.50", "5.50"),
        ("integer number", "-1E+2", "-1E+2"),
        ("integer number", "007", '"007"'),
        ("integer number", ".5", '".5"'),
        ("integer number", "1.", '"1."'),
        ("integer number", "NaN", '"NaN"'),
        ("integer number", "Infinity", '"Infinity"'),
        # booleans and null
        ("boolean", "true", "true"),
        ("boolean", "True", "true"),
        ("boolean", " FALSE ", "false"),
        ("boolean", "yes", '"yes"'),
        ("boolean", "1", '"1"'),
        ("null", "null", "null"),
        ("null", "None", "null"),
        ("null", "nil", '"nil"'),
        # arrays and objects
        ("array", '["a", 1]', '["a", 1]'),
        ("array", " [1,2]\n", "[1,2]"),
        ("array", "['a', True, None]", '["a", true, null]'),
        ("array", '{"a": 1}', r'"{\"a\": 1}"'),
        ("array", "a, b", '"a, b"'),
        ("array", "[a, b]", '"[a, b]"'),
        ("array", "[1", "[1]"),
        ("array", '[{"a": [1, "b"]', '[{"a": [1, "b"]}]'),
        ("array", "[1,", '"[1,"'),
        ("array", '["a', r'"[\"a"'),
        ("array", "[1}", '"[1}"'),
        ("array string", "[1", '"[1"'),
        ("object", '{"a": 1 ', '{"a": 1}'),
        ("object", '{"a": ', r'"{\"a\": "'),
        ("object", '{"a":  {}}', '{"a":  {}}'),
        ("object", "{'a': (1, 2)}", '{"a": [1, 2]}'),
        ("object", "[1]", '"[1]"'),
        ("object", '{"a": 1} x', r'"{\"a\": 1} x"'),
        # several types
        ("integer string", "5", "5"),
        ("integer string", "5x", '"5x"'),
        ("null string", "null", "null"),
        ("null string", "nulls", '"nulls"'),
        ("boolean integer", "1", "1"),
        ("array object", "[{}]", "[{}]"),
    ],
)
def test_bare_text_becomes_a_type_that_is_allowed_or_a_string(types: str, text: str, expected: str) -> None:
    written = coerce(text, frozenset(types.split()))
    assert written == expected
    assert json.loads(written) is not ...


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5),
        ("5.5", 5.5),
        ("true", True),
        ("None", None),
        ("[1]", [1]),
        ("{'a': 1}", {"a": 1}),
        ("Paris", "Paris"),
        ('"Paris"', '"Paris"'),
    ],
)
def test_the_text_decides_if_the_schema_does_not_tell(text: str, expected: Any) -> None:
    value = json.loads(coerce(text, ANY_TYPE))
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [('"Paris"', '"Paris"'), (r' "a\n" ', r'"a\n"'), ('"a', r'"\"a"'), ("Paris", '"Paris"'), ("5", "5")],
)
def test_text_declared_as_json_may_be_a_json_string(text: str, expected: str) -> None:
    assert coerce(text, ANY_TYPE, declared_json=True) == expected


def test_a_huge_number_stays_as_written() -> None:
    longest = "9" * MAX_UNDECIDED
    assert coerce(longest, frozenset({"integer"})) == longest
    assert coerce(f"{longest}9", frozenset({"integer"})) == f'"{longest}9"'


def test_only_json_may_be_long() -> None:
    long = "x" * MAX_UNDECIDED
    assert coerce(f'["{long}"]', frozenset({"array"})) == f'["{long}"]'
    assert coerce(f"['{long}']", frozenset({"array"})) == f'["{long}"]'
    assert coerce(f"('{long}',)", frozenset({"array"})) == f"\"('{long}',)\""


def test_a_schema_that_contains_itself_many_times_is_read_in_time() -> None:
    schema = {"properties": {"v": {"anyOf": [{"$ref": "#/properties/v"}] * 8}}}
    assert types_of(schema, "v") == ANY_TYPE
    assert types_of({"allOf": [{"$ref": "#"}] * 8, "properties": {}}, "v") == ANY_TYPE


class Counted(dict[str, Any]):
    """A schema that counts how often it is looked into."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        Counted.looks += 1
        return super().get(key, default)


def chain(length: int) -> dict[str, Any]:
    """A schema that refers to one that refers to another."""
    return {
        "$ref": "#/$defs/0",
        "$defs": Counted({str(n): Counted({"$ref": f"#/$defs/{n + 1}"}) for n in range(length)})
        | {str(length): {"properties": {"v": {"type": "null"}}}},
    }


def nest(depth: int) -> dict[str, Any]:
    """A schema of alternatives of alternatives."""
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(depth):
        schema = Counted({"anyOf": [schema]})
    return {"properties": {"v": schema}}


def branch(count: int) -> dict[str, Any]:
    """A schema of many alternatives, all of them with the same parameter."""
    city = Counted({"anyOf": [{"type": "null"}] * count})
    return {"anyOf": [Counted({"properties": {"v": city}}) for _ in range(count)]}


@pytest.mark.parametrize("make", [chain, nest, branch])
def test_work_grows_as_the_schema_does(make: Callable[[int], dict[str, Any]]) -> None:
    looks = []
    for size in (1_000, 2_000):
        Counted.looks = 0
        assert types_of(make(size), "v") == {"null"}
        looks.append(Counted.looks)
    assert 0 < looks[1] < 2.2 * looks[0]


def test_schemas_that_contain_each_other_tell_the_same_in_any_order() -> None:
    circle = {
        "a": {"type": ["null", "string"], "anyOf": [{"$ref": "#/properties/b"}]},
        "b": {"type": ["null", "integer"], "anyOf": [{"$ref": "#/properties/c"}]},
        "c": {"allOf": [{"$ref": "#/properties/a"}]},
    }
    for names in itertools.permutations(circle):
        parameters = {"properties": {name: circle[name] for name in names}}
        assert {name: set(types_of(parameters, name)) for name in circle} == {name: {"null"} for name in circle}


def many(count: int) -> dict[str, Any]:
    """A schema of many parameters."""
    return {"properties": {f"p{n}": {"type": "null"} for n in range(count)}}


SCHEMAS: Final[dict[str, Callable[[int], dict[str, Any]]]] = {
    "properties": many,
    "$ref": lambda size: (
        {**many(size), "$defs": {"n": {"type": "null"}}}
        | {"properties": {f"p{n}": {"$ref": "#/$defs/n"} for n in range(size)}}
    ),
    "a chain of $ref": chain,
    "anyOf, nested": nest,
    "oneOf": lambda size: {"oneOf": [{"properties": {f"p{n}": {"type": "null"}}} for n in range(size)]},
    "allOf": lambda size: {"allOf": [{"properties": {f"p{n}": {"type": "null"}}} for n in range(size)]},
    "allOf, nested": lambda size: functools.reduce(
        lambda inner, n: {"properties": {f"p{n}": {"type": "null"}}, "allOf": [inner]}, range(size), {}
    ),
    "additionalProperties": lambda size: {"additionalProperties": {"anyOf": [{"type": "null"}] * size}},
    "enum": lambda size: (
        {"properties": {f"p{n}": {"$ref": "#/$defs/e"} for n in range(size)}}
        | {"$defs": {"e": {"enum": [None] * size}}}
    ),
    "type": lambda size: (
        {"properties": {f"p{n}": {"$ref": "#/$defs/e"} for n in range(size)}}
        | {"$defs": {"e": {"type": ["null"] * size}}}
    ),
    "each in a circle": lambda size: {
        "properties": {f"p{n}": {"anyOf": [{"$ref": f"#/properties/p{(n + 1) % size}"}]} for n in range(size)}
    },
}
"""By keyword: a tool's parameters of a size."""


@pytest.mark.parametrize("keyword", SCHEMAS)
def test_the_work_on_all_parameters_grows_with_the_schema(
    monkeypatch: pytest.MonkeyPatch, keyword: str
) -> None:
    monkeypatch.setattr(schema, "_MAX_STEPS", 300)

    def prepare(size: int) -> Callable[[], object]:
        parameters = SCHEMAS[keyword](size)

        def ask() -> None:
            tools = Tools({"f": parameters})
            for number in range(size):
                tools.types("f", f"p{number}")

        return ask

    assert max(growth([400, 800], prepare)) < 2.2
