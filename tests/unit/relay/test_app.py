"""The relay's application: its routes and their description in the OpenAPI document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from fastapi.routing import APIRoute

from derender.http.app import create_app
from derender.models.model import Models
from derender.protocol.reading import read
from derender.relay import RelaySettings, Upstream
from derender.relay.app import create_relay_app
from derender.relay.requests import (
    ChatRelayRequest,
    ClientChatRequest,
    ClientCompletionRequest,
    CompletionRelayRequest,
)
from tests.support.qwen3 import qwen3
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY

if TYPE_CHECKING:
    from derender.protocol.base import WireModel
    from tests.support.relay_in_process import InProcessRelay

MODELS: Final = Models((), None)
REQUESTS: Final[dict[str, type[WireModel]]] = {
    CHAT + RELAY: ChatRelayRequest,
    COMPLETIONS + RELAY: CompletionRelayRequest,
    CHAT: ClientChatRequest,
    COMPLETIONS: ClientCompletionRequest,
}


def test_without_a_render_service_there_are_only_the_relays_own_routes() -> None:
    relay = RelaySettings((Upstream("gpu", "http://127.0.0.1:1"),))
    alone, relaying = (
        {route.path for route in app.routes if isinstance(route, APIRoute)}
        for app in (create_app(MODELS, max_body_bytes=1), create_relay_app(MODELS, relay, max_body_bytes=1))
    )
    assert relaying - alone == {CHAT + RELAY, COMPLETIONS + RELAY}


def test_the_derender_endpoints_are_served_too(relay: InProcessRelay) -> None:
    choice = {"index": 0, "token_ids": qwen3().encode("one"), "finish_reason": "stop"}
    response = relay.post(f"{CHAT}/derender", {"generate_response": {"choices": [choice]}, "chat_request": {}})
    assert response.json()["choices"][0]["message"]["content"] == "one"
    assert REQUESTS.keys() <= relay.get("/openapi.json").json()["paths"].keys()


@pytest.mark.parametrize("path", REQUESTS)
def test_requests_and_responses_of_a_route_are_described(relay: InProcessRelay, path: str) -> None:
    document: dict[str, Any] = relay.get("/openapi.json").json()
    operation = document["paths"][path]["post"]
    body = operation["requestBody"]["content"]["application/json"]
    for example in body["examples"].values():
        read(REQUESTS[path], json.dumps(example["value"]).encode())
    schemas = document["components"]["schemas"]
    described = schemas[body["schema"]["$ref"].rpartition("/")[2]]
    fields = described["properties"].items()
    assert [name for name, field in fields if not field.keys() & {"description", "$ref"}] == []
    assert operation["responses"]["200"]["content"].keys() == {"application/json", "text/event-stream"}
    assert {"400", "404", "413", "415", "422", "429", "500", "502", "503", "504"} <= operation[
        "responses"
    ].keys()


@pytest.mark.parametrize("name", ["GenerateRequest", "StreamOptions"])
def test_each_field_of_a_generate_request_is_described(relay: InProcessRelay, name: str) -> None:
    schemas = relay.get("/openapi.json").json()["components"]["schemas"]
    assert all(field.get("description") for field in schemas[name]["properties"].values())
