"""The OpenAPI document: descriptions of operations, and the schemas they refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic.json_schema import models_json_schema
from starlette.routing import compile_path

from derender.protocol.openai.chat import ChatLogprobs
from derender.protocol.openai.completions import CompletionLogprobs
from derender.protocol.openai.errors import ErrorResponse

from .sse import EVENT_STREAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic.json_schema import JsonSchemaMode

    from derender.protocol.base import WireModel

    from .operation import Event, Operation

__all__ = ["describe"]

_DONE: Final = {"type": "object", "required": ["data"], "properties": {"data": {"const": "[DONE]"}}}
"""The event that ends a stream."""
_REFERRED: Final = (ChatLogprobs, CompletionLogprobs, ErrorResponse)
"""Models that schemas refer to by name only, and the model of every error."""


def describe(document: dict[str, Any], operations: Sequence[Operation]) -> None:
    """Add the bodies of requests and responses to the document that FastAPI makes of the routes.

    Args:
        document: The document.
        operations: The operations whose routes it lists.
    """
    for operation in operations:
        _, path, _ = compile_path(operation.path)
        described = document["paths"][path][operation.method.lower()]
        if operation.parameters:
            described["parameters"] = [_describe_parameter(*each) for each in operation.parameters.items()]
        if operation.requests:
            examples = {name: {"value": example} for name, example in operation.examples.items()}
            content = {"application/json": {**_describe_json(operation.requests), "examples": examples}}
            described["requestBody"] = {"required": True, "content": content}
        if operation.answers:
            described["responses"]["200"]["content"] = _describe_answers(operation)
        error = {"application/json": _describe_json([ErrorResponse])}
        for status, text in operation.errors.items():
            described["responses"][str(status.value)] = {"description": text, "content": error}
    document.setdefault("components", {}).setdefault("schemas", {}).update(_make_schemas(operations))


def _make_schemas(operations: Iterable[Operation]) -> dict[str, Any]:
    models: list[tuple[type[WireModel], JsonSchemaMode]] = [(model, "serialization") for model in _REFERRED]
    for operation in operations:
        models += [(model, "validation") for model in operation.requests]
        models += [(model, "serialization") for model in operation.answers]
        models += [(data, "serialization") for _, data in operation.events]
    _, schemas = models_json_schema(list(dict.fromkeys(models)), ref_template="#/components/schemas/{model}")
    found: dict[str, Any] = schemas["$defs"]
    return found


def _describe_parameter(name: str, description: str) -> dict[str, Any]:
    schema = {"type": "string"}
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def _describe_answers(operation: Operation) -> dict[str, Any]:
    content = {"application/json": _describe_json(operation.answers)}
    if operation.events:
        content[EVENT_STREAM] = {"schema": {"anyOf": [*map(_describe_event, operation.events), _DONE]}}
    return content


def _describe_json(models: Sequence[type[WireModel]]) -> dict[str, Any]:
    options = [_refer_to(model) for model in models]
    return {"schema": options[0] if len(options) == 1 else {"anyOf": options}}


def _refer_to(model: type[WireModel]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _describe_event(event: Event) -> dict[str, Any]:
    """Describe an event as OpenAPI 3.2 does ("Server-Sent Event Streams")."""
    name, model = event
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": _refer_to(model)}
    if name == "message":
        return {"type": "object", "required": ["data"], "properties": {"data": data}}
    properties = {"data": data, "event": {"const": name}}
    return {"type": "object", "required": ["data", "event"], "properties": properties}
