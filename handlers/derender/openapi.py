"""The OpenAPI document, from the wire models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from .protocol.derender import ChatDerenderRequest, CompletionDerenderRequest
from .protocol.openai import (
    ChatCompletion,
    ChatLogprobs,
    CompletionLogprobs,
    ErrorResponse,
    ModelList,
    TextCompletion,
    Version,
)

if TYPE_CHECKING:
    from fastapi import FastAPI
    from pydantic.json_schema import JsonSchemaMode

    from .protocol.base import WireModel

__all__ = ["describe"]

_ABOUT: Final = """\
A generate server of a disaggregated deployment has no tokenizer: it returns token ids, and logprobs that name
tokens by id. Post what it returned, with the client's request if there is one, and get the OpenAI response.

Every answer that is no success is `{"error": {"message", "type", "param", "code"}}`; the message says what to
change. Bodies may be gzipped (`Content-Encoding: gzip`), and large answers are where the client accepts it.
"""
_GENERATED: Final = {
    "request_id": "cmpl-7f3a",
    "choices": [{"index": 0, "token_ids": [9707, 11, 1879, 0, 151645], "finish_reason": "stop"}],
}
_OPERATIONS: Final[dict[tuple[str, str], tuple[type[WireModel] | None, type[WireModel], Any]]] = {
    ("/v1/chat/completions/derender", "post"): (
        ChatDerenderRequest,
        ChatCompletion,
        {"generate_response": _GENERATED, "prompt_tokens": 7, "chat_request": {"messages": []}},
    ),
    ("/v1/completions/derender", "post"): (
        CompletionDerenderRequest,
        TextCompletion,
        {"generate_responses": [_GENERATED], "prompt_tokens": [7]},
    ),
    ("/v1/models", "get"): (None, ModelList, None),
    ("/version", "get"): (None, Version, None),
}
"""Path and method → request model, response model, example request."""
_ALSO: Final = (ChatLogprobs, CompletionLogprobs, ErrorResponse)
"""What the others refer to, or every operation answers with."""
_ERRORS: Final = {
    "400": "Malformed, or out of bounds.",
    "404": "No such model.",
    "413": "The body is too large.",
    "415": "A content encoding other than gzip.",
    "500": "A fault of derender's own.",
}


def describe(app: FastAPI) -> dict[str, Any]:
    """The document of an application, with every field of the wire models explained."""
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes, description=_ABOUT
    )
    modes: list[tuple[type[WireModel], JsonSchemaMode]] = [(model, "serialization") for model in _ALSO]
    for request, response, _ in _OPERATIONS.values():
        modes += [(request, "validation")] if request is not None else []
        modes.append((response, "serialization"))
    _, schemas = models_json_schema(modes, ref_template="#/components/schemas/{model}")
    document.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
    for (path, method), (request, response, example) in _OPERATIONS.items():
        operation = document["paths"][path][method]
        operation["responses"]["200"]["content"] = _content(response)
        if request is not None:
            operation["requestBody"] = {"required": True, "content": _content(request, example)}
            operation["responses"] |= {
                status: {"description": text, "content": _content(ErrorResponse)}
                for status, text in _ERRORS.items()
            }
    return document


def _content(model: type[WireModel], example: Any = None) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}
    if example is not None:
        content["example"] = example
    return {"application/json": content}
