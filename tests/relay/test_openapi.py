"""The OpenAPI document of an application that relays."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.protocol.reading import read
from derender.relay.requests import (
    ChatRelayRequest,
    ClientChatRequest,
    ClientCompletionRequest,
    CompletionRelayRequest,
)
from tests.support.relay_server import CHAT, COMPLETIONS, RELAY

if TYPE_CHECKING:
    from derender.protocol.base import WireModel
    from tests.support.relay_server import RelayServer

REQUESTS: Final[dict[str, type[WireModel]]] = {
    f"{CHAT}{RELAY}": ChatRelayRequest,
    f"{COMPLETIONS}{RELAY}": CompletionRelayRequest,
    CHAT: ClientChatRequest,
    COMPLETIONS: ClientCompletionRequest,
}


@pytest.mark.parametrize("path", REQUESTS)
def test_what_goes_in_and_out_of_a_route_is_described(relay: RelayServer, path: str) -> None:
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
    assert {"400", "404", "413", "415", "422", "429", "500", "502", "504"} <= operation["responses"].keys()


def test_each_field_of_what_a_generate_server_is_asked_is_explained(relay: RelayServer) -> None:
    schemas = relay.get("/openapi.json").json()["components"]["schemas"]
    for name in ("GenerateRequest", "StreamOptions"):
        assert all(field.get("description") for field in schemas[name]["properties"].values())
