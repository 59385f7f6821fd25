"""The OpenAPI document: complete, consistent, and true to the models."""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec
import pytest
from pydantic import TypeAdapter

from derender.endpoints import ENDPOINTS
from derender.protocol.base import WireModel
from derender.protocol.complete import ChatDerenderRequest, CompletionDerenderRequest
from derender.protocol.logprobs import LogprobEntry
from derender.protocol.reading import read_either
from derender.protocol.stream import ChatStreamRequest, CompletionStreamRequest
from tests.support.api_client import CHAT, COMPLETIONS, generated
from tests.support.json_mutations import at as value_at
from tests.support.json_mutations import places
from tests.support.vocabularies import B

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api_client import Client

REQUESTS: Final[dict[str, dict[str, type[WireModel]]]] = {
    CHAT: {"complete": ChatDerenderRequest, "streamed": ChatStreamRequest},
    COMPLETIONS: {"complete": CompletionDerenderRequest, "streamed": CompletionStreamRequest},
}


@pytest.fixture(scope="module")
def document(client: Client) -> dict[str, Any]:
    answer = client.send("/openapi.json", method="GET")
    assert answer.status == 200
    found: dict[str, Any] = answer.json
    return found


def resolve(document: dict[str, Any], ref: str) -> Any:
    assert ref.startswith("#/")
    return value_at(document, tuple(ref[2:].split("/")))


def reachable(document: dict[str, Any], schema: Any, seen: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The named schemas that a schema refers to, directly or not."""
    for place in places(schema):
        ref = value_at(schema, place)
        if place and place[-1] == "$ref" and ref not in seen:
            seen.add(ref)
            target = resolve(document, ref)
            yield ref.rsplit("/", 1)[1], target
            yield from reachable(document, target, seen)


def properties(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The properties of a schema, with nested ones."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}", field
        yield from properties(field.get("items", {}), f"{path}.{name}[]")
    for option in schema.get("anyOf", []):
        yield from properties(option, path)


def test_it_has_the_version_of_openapi(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["title"] == "derender"
    assert document["info"]["version"]


def test_every_endpoint_has_a_route(document: dict[str, Any]) -> None:
    assert ENDPOINTS.keys() <= document["paths"].keys()


def test_it_lists_every_path(document: dict[str, Any]) -> None:
    methods = {(path, method) for path, item in document["paths"].items() for method in item}
    assert {
        (CHAT, "post"),
        (COMPLETIONS, "post"),
        ("/v1/models", "get"),
        ("/v1/models/{model}", "get"),
        ("/detokenize", "post"),
        ("/ping", "get"),
        ("/ping", "post"),
        ("/health", "get"),
        ("/version", "get"),
    } <= methods
    for item in document["paths"].values():
        for operation in item.values():
            assert operation["summary"]
            assert operation["operationId"].isidentifier()
            assert operation["tags"]


def test_operation_ids_are_unique(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert len(ids) == len(set(ids))


def test_every_reference_resolves(document: dict[str, Any]) -> None:
    refs = [value_at(document, place) for place in places(document) if place and place[-1] == "$ref"]
    assert refs
    for ref in refs:
        assert isinstance(resolve(document, ref), dict)


@pytest.mark.parametrize("path", REQUESTS)
def test_every_field_of_a_request_has_a_description(document: dict[str, Any], path: str) -> None:
    body = document["paths"][path]["post"]["requestBody"]
    assert body["required"] is True
    fields = [
        field
        for name, schema in reachable(document, body["content"]["application/json"]["schema"], set())
        for field in properties(schema, name)
    ]
    assert len(fields) > 20
    assert [name for name, field in fields if not field.get("description")] == []


def test_parameters_of_paths_are_described(document: dict[str, Any]) -> None:
    for path, item in document["paths"].items():
        for operation in item.values():
            parameters = operation.get("parameters", [])
            assert all(each["in"] == "path" and each["required"] and each["description"] for each in parameters)
            assert "".join(f"{{{each['name']}}}" for each in parameters) == "".join(re.findall(r"{\w+}", path))


@pytest.mark.parametrize("path", REQUESTS)
def test_every_model_of_a_request_has_a_description(document: dict[str, Any], path: str) -> None:
    schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert [name for name, target in reachable(document, schema, set()) if not target.get("description")] == []


def test_every_field_of_a_response_has_a_description(document: dict[str, Any]) -> None:
    fields = [
        (f"{method} {path}: {name}", field)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for response in operation["responses"].values()
        for content in response.get("content", {}).values()
        for model, schema in reachable(document, content["schema"], set())
        for name, field in properties(schema, model)
    ]
    assert len(fields) > 80
    assert [name for name, field in fields if not field.get("description")] == []


@pytest.mark.parametrize("path", REQUESTS)
def test_responses_and_errors_are_described(document: dict[str, Any], path: str) -> None:
    responses = document["paths"][path]["post"]["responses"]
    assert {"200", "400", "404", "413", "415"} <= set(responses)
    for status, response in responses.items():
        assert response["description"]
        for content in response["content"].values():
            for target in targets(document, content["schema"]):
                assert ("error" in target["properties"]) == (status != "200")


def targets(document: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas that a schema and its options refer to; for events, those of their data."""
    return [
        resolve(document, ref)
        for option in schema.get("anyOf", [schema])
        for ref in (value_at(option, place) for place in places(option) if place and place[-1] == "$ref")
    ]


@pytest.mark.parametrize("path", REQUESTS)
def test_the_example_requests_are_valid(document: dict[str, Any], path: str) -> None:
    examples = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["examples"]
    complete, streamed = REQUESTS[path].values()
    assert examples.keys() == REQUESTS[path].keys()
    for name, example in examples.items():
        request = read_either(complete, streamed, json.dumps(example["value"]).encode())
        assert isinstance(request, REQUESTS[path][name])


def models_within(annotation: Any) -> Iterator[type[WireModel]]:
    """The models in an annotation, with nested ones."""
    if isinstance(annotation, type) and issubclass(annotation, WireModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models_within(field.annotation)
    for argument in get_args(annotation):
        yield from models_within(argument)


@pytest.mark.parametrize("path", REQUESTS)
def test_examples_of_fields_are_valid(document: dict[str, Any], path: str) -> None:
    checked = 0
    for model in chain.from_iterable(map(models_within, REQUESTS[path].values())):
        schema = document["components"]["schemas"][model.__name__]
        for name, field in model.model_fields.items():
            described = schema["properties"][name]
            for option in (described, *described.get("anyOf", ())):
                for example in option.get("examples", ()):
                    if name == "content":
                        # Logprob entries are parsed before the model looks.
                        msgspec.convert(example, list[LogprobEntry])
                    else:
                        adapter: TypeAdapter[Any] = TypeAdapter(field.annotation)
                        adapter.validate_json(json.dumps(example))
                    checked += 1
    assert checked > 5


def test_responses_have_the_fields_that_are_described(client: Client, document: dict[str, Any]) -> None:
    response = generated([int(B.HELLO)])
    for path, complete in (
        (CHAT, {"generate_response": response}),
        (COMPLETIONS, {"generate_responses": [response]}),
    ):
        content = document["paths"][path]["post"]["responses"]["200"]["content"]
        described = targets(document, content["application/json"]["schema"])
        streamed = {"stream": True, "generate_chunks": [response]}
        requests = (complete, {"stream": True, "generate_chunk": response}, streamed)
        for target, request in zip(described, requests, strict=True):
            answer = client.post(path, request).json
            assert set(answer) == set(target["properties"])
        chunk, state = targets(document, content["text/event-stream"]["schema"])
        answer = client.post(path, streamed).json
        assert set(answer["stream_state"]) == set(state["properties"])
        for target, body in ((described[0], client.post(path, complete).json), (chunk, answer["chunks"][0])):
            assert set(body) == set(target["properties"])
            choice = resolve(document, target["properties"]["choices"]["items"]["$ref"])
            assert set(body["choices"][0]) == set(choice["properties"])


def test_the_documentation_page_is_served(client: Client) -> None:
    answer = client.send("/docs", method="GET")
    assert answer.status == 200
    assert b"openapi.json" in answer.body
