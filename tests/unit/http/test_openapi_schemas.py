"""The schemas of the OpenAPI document accept what derender accepts, field by field, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from jsonschema_rs import validator_for

from derender.errors import InvalidRequest
from derender.models.model import Models
from derender.protocol.complete import ChatDerenderRequest, CompletionDerenderRequest
from derender.protocol.reading import read, read_either
from derender.protocol.stream import ChatStreamRequest, CompletionStreamRequest
from derender.relay import RelaySettings, Upstream
from derender.relay.app import create_relay_app
from derender.relay.requests import (
    ChatRelayRequest,
    ClientChatRequest,
    ClientCompletionRequest,
    CompletionRelayRequest,
)
from tests.support.api_client import CHAT, COMPLETIONS
from tests.support.json_mutations import at, deleted, places, replaced

if TYPE_CHECKING:
    from derender.protocol.base import WireModel

UPSTREAM: Final = Upstream("gpu", "http://localhost")
DOCUMENT: Final = create_relay_app(
    Models((), None), RelaySettings((UPSTREAM,), render=UPSTREAM), max_body_bytes=1
).openapi()
MODELS: Final[dict[str, tuple[type[WireModel], ...]]] = {
    CHAT: (ChatDerenderRequest, ChatStreamRequest),
    COMPLETIONS: (CompletionDerenderRequest, CompletionStreamRequest),
    f"{CHAT}/relay": (ChatRelayRequest,),
    f"{COMPLETIONS}/relay": (CompletionRelayRequest,),
    "/v1/chat/completions": (ClientChatRequest,),
    "/v1/completions": (ClientCompletionRequest,),
}
"""The models of the requests to each path."""
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 256, 1.5, 2**48 + 1, 2**63, 2**70),
    *(
        "",
        "x",
        "1",
        "tokens",
        "x" * 300,
        [],
        [None],
        [1],
        [-1],
        [""],
        ["x"],
        [[]],
        [{}],
        {},
        {"a": 1},
        {"1": {}},
    ),
)
"""Values to try in place of each value of a request."""


def full(schema: Any) -> Any:
    """A value that a schema accepts, with every field; of several options, the first."""
    match schema:
        case {"$ref": ref}:
            return full(at(DOCUMENT, tuple(ref.removeprefix("#/").split("/"))))
        case {"anyOf": [first, *_]}:
            return full(first)
        case {"const": value}:
            return value
        case {"type": "object", "properties": fields}:
            return {name: full(field) for name, field in fields.items()}
        case {"type": "object", "patternProperties": fields}:
            return dict(zip("123", map(full, fields.values()), strict=False))
        case {"type": "array"}:
            return [full(schema["items"])]
        case {"type": "string"}:
            return "x"
        case {"type": "integer"} | {"type": "number"}:
            return 1
        case {"type": "boolean"}:
            return True
    return {"a": 1}


def requests(path: str) -> list[Any]:
    """A request of each model, with every field."""
    made = [full({"$ref": f"#/components/schemas/{form.__name__}"}) for form in MODELS[path]]
    if len(made) == 1:
        return made
    complete, streamed = made
    return [complete, *(deleted(streamed, (name,)) for name in ("generate_chunk", "generate_chunks"))]


def is_accepted(path: str, body: object) -> bool:
    """Whether derender can read a request."""
    content = json.dumps(body).encode()
    models = MODELS[path]
    try:
        read_either(*models, content) if len(models) == 2 else read(models[0], content)
    except InvalidRequest:
        return False
    return True


@pytest.mark.parametrize("path", MODELS)
def test_a_request_is_accepted_if_its_schema_accepts_it(path: str) -> None:
    schema = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    validator = validator_for({**schema, "components": DOCUMENT["components"]})
    tried: dict[bool, int] = {True: 0, False: 0}
    for request in requests(path):
        assert is_accepted(path, request)
        others = [replaced(request, place, value) for place in places(request) for value in VALUES]
        for other in (request, *others, *(deleted(request, place) for place in places(request) if place)):
            valid = validator.is_valid(other)
            assert is_accepted(path, other) is valid, json.dumps(other)
            tried[valid] += 1
    assert min(tried.values()) > 100


@pytest.mark.parametrize("path", MODELS)
def test_every_model_of_a_request_is_documented(path: str) -> None:
    schema = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    refs = [option["$ref"] for option in schema.get("anyOf", [schema])]
    assert refs == [f"#/components/schemas/{model.__name__}" for model in MODELS[path]]
