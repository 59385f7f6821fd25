"""The OpenAPI document, from the wire models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from derender.protocol.derender import ChatDerenderRequest, CompletionDerenderRequest
from derender.protocol.openai import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatLogprobs,
    CompletionLogprobs,
    ErrorResponse,
    ModelList,
    TextCompletion,
    TextCompletionChunk,
    Version,
)
from derender.protocol.stream import (
    ChatChunk,
    ChatChunks,
    ChatStreamRequest,
    CompletionChunk,
    CompletionChunks,
    CompletionStreamRequest,
    StreamState,
)
from derender.relay.requests import (
    ChatRelayRequest,
    ClientChatRequest,
    ClientCompletionRequest,
    CompletionRelayRequest,
)

from .sse import EVENT_STREAM

if TYPE_CHECKING:
    from fastapi import FastAPI
    from pydantic.json_schema import JsonSchemaMode

    from derender.protocol.base import WireModel

__all__ = ["describe"]

_ABOUT: Final = """\
A generate server of a disaggregated deployment has no tokenizer: it returns token ids, and logprobs that name
tokens by id. Post what it returned, with the client's request if there is one, and get the OpenAI response.

Every answer that is no success is `{"error": {"message", "type", "param", "code"}}`, also those to an unknown
path (404) or another method (405); the message says what to change. Bodies may be gzipped
(`Content-Encoding: gzip`), and large answers are where the client accepts it. Integers are written without a
fraction: `1`, not `1.0`.

With `"stream": true`, post each event of the generate server's stream as `generate_chunk`, with the
`stream_state` of the last answer (null first), and get a chunk of the OpenAI stream; or post several as
`generate_chunks`, and get as many, as server-sent events where the client accepts those.
"""
_GENERATED: Final = {
    "request_id": "cmpl-7f3a",
    "choices": [{"index": 0, "token_ids": [9707, 11, 1879, 0, 151645], "finish_reason": "stop"}],
}
_CHUNK: Final = {
    "request_id": "cmpl-7f3a",
    "choices": [{"index": 0, "token_ids": [9707], "finish_reason": None}],
}


class _Operation(NamedTuple):
    """What goes in and out of a route."""

    requests: tuple[type[WireModel], ...]
    """Any one of these."""
    answers: tuple[type[WireModel], ...]
    events: tuple[type[WireModel], ...] = ()
    """What is the data of server-sent events, if the client accepts those."""
    examples: Any = None
    """Name → request."""


_OPERATIONS: Final = {
    ("/v1/chat/completions/derender", "post"): _Operation(
        (ChatDerenderRequest, ChatStreamRequest),
        (ChatCompletion, ChatChunk, ChatChunks),
        (ChatCompletionChunk, StreamState),
        {
            "complete": {"generate_response": _GENERATED, "prompt_tokens": 7, "chat_request": {"messages": []}},
            "streamed": {
                "stream": True,
                "generate_chunk": _CHUNK,
                "stream_state": None,
                "chat_request": {"messages": []},
            },
        },
    ),
    ("/v1/completions/derender", "post"): _Operation(
        (CompletionDerenderRequest, CompletionStreamRequest),
        (TextCompletion, CompletionChunk, CompletionChunks),
        (TextCompletionChunk, StreamState),
        {
            "complete": {"generate_responses": [_GENERATED], "prompt_tokens": [7]},
            "streamed": {"stream": True, "generate_chunk": _CHUNK, "stream_state": None},
        },
    ),
    ("/v1/models", "get"): _Operation((), (ModelList,)),
    ("/version", "get"): _Operation((), (Version,)),
}
"""Path and method → what goes in and out."""
_GENERATE: Final = {
    "request_id": "cmpl-7f3a",
    "token_ids": [151644, 872, 198],
    "sampling_params": {"max_tokens": 512},
}
_MESSAGES: Final = {"messages": [{"role": "user", "content": "Say hello"}]}
_RELAYED: Final = {
    ("/v1/chat/completions/derender/relay", "post"): _Operation(
        (ChatRelayRequest,),
        (ChatCompletion,),
        (ChatCompletionChunk, ErrorResponse),
        {
            "complete": {"generate_request": _GENERATE, "chat_request": _MESSAGES},
            "streamed": {"generate_request": _GENERATE, "chat_request": {**_MESSAGES, "stream": True}},
        },
    ),
    ("/v1/completions/derender/relay", "post"): _Operation(
        (CompletionRelayRequest,),
        (TextCompletion,),
        (TextCompletionChunk, ErrorResponse),
        {
            "complete": {"generate_request": _GENERATE},
            "streamed": {"generate_request": _GENERATE, "completion_request": {"stream": True}},
        },
    ),
    ("/v1/chat/completions", "post"): _Operation(
        (ClientChatRequest,),
        (ChatCompletion,),
        (ChatCompletionChunk, ErrorResponse),
        {"complete": _MESSAGES, "streamed": {**_MESSAGES, "stream": True}},
    ),
    ("/v1/completions", "post"): _Operation(
        (ClientCompletionRequest,),
        (TextCompletion,),
        (TextCompletionChunk, ErrorResponse),
        {"complete": {"prompt": "Once"}, "streamed": {"prompt": "Once", "stream": True}},
    ),
}
"""The same of the routes that relay, of which an application has none, some or all."""
_EVENT_NAMES: Final = {StreamState: "stream_state"}
"""What is no message."""
_DONE: Final = {"type": "object", "required": ["data"], "properties": {"data": {"const": "[DONE]"}}}
"""The event that ends a stream."""
_ALSO: Final = (ChatLogprobs, CompletionLogprobs, ErrorResponse)
"""What the others refer to, or every operation answers with."""
_ERRORS: Final = {
    "400": "Malformed, or out of bounds.",
    "404": "No such model.",
    "413": "The body is too large, or the answer is more than Lambda returns.",
    "415": "A content encoding other than gzip.",
    "500": "A fault of derender's own.",
}
_UPSTREAM_ERRORS: Final = {
    "422": "Refused by an upstream, as 400, 413 and 429 may be.",
    "429": "Refused by an upstream: too many requests.",
    "502": "An upstream can't be reached, fails, or says what can't be understood.",
    "504": "An upstream is silent for too long.",
}


def describe(app: FastAPI) -> dict[str, Any]:
    """The document of an application, with every field of the wire models explained."""
    document = get_openapi(
        title=app.title, version=app.version, summary=app.summary, routes=app.routes, description=_ABOUT
    )
    modes: list[tuple[type[WireModel], JsonSchemaMode]] = [(model, "serialization") for model in _ALSO]
    operations = {
        **_OPERATIONS,
        **{route: operation for route, operation in _RELAYED.items() if route[0] in document["paths"]},
    }
    for operation in operations.values():
        modes += [(model, "validation") for model in operation.requests]
        modes += [(model, "serialization") for model in (*operation.answers, *operation.events)]
    unique = list(dict.fromkeys(modes))
    _, schemas = models_json_schema(unique, ref_template="#/components/schemas/{model}")
    document.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
    for (path, method), operation in operations.items():
        described = document["paths"][path][method]
        content = {"application/json": _schema(operation.answers)}
        if operation.events:
            content[EVENT_STREAM] = {"schema": {"anyOf": [*map(_event, operation.events), _DONE]}}
        described["responses"]["200"]["content"] = content
        if operation.requests:
            body = {**_schema(operation.requests), "examples": _named(operation.examples)}
            described["requestBody"] = {"required": True, "content": {"application/json": body}}
            error = {"application/json": _schema((ErrorResponse,))}
            described["responses"] |= {
                status: {"description": text, "content": error}
                for status, text in {
                    **_ERRORS,
                    **(_UPSTREAM_ERRORS if (path, method) in _RELAYED else {}),
                }.items()
            }
    return document


def _schema(models: tuple[type[WireModel], ...]) -> dict[str, Any]:
    options = [_reference(model) for model in models]
    return {"schema": options[0] if len(options) == 1 else {"anyOf": options}}


def _reference(model: type[WireModel]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _event(model: type[WireModel]) -> dict[str, Any]:
    """An event whose data is a model, as OpenAPI 3.2 describes events ("Server-Sent Event Streams")."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": _reference(model)}
    schema = {"type": "object", "required": ["data"], "properties": {"data": data}}
    if model not in _EVENT_NAMES:
        return schema
    return {
        **schema,
        "required": ["data", "event"],
        "properties": {"data": data, "event": {"const": _EVENT_NAMES[model]}},
    }


def _named(examples: dict[str, Any]) -> dict[str, Any]:
    return {name: {"value": example} for name, example in examples.items()}
