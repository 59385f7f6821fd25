"""The relay of several models: each request is derendered with the vocabulary of the one that it names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.vocabulary import dump
from tests.support.generate_protocol import chunks_of, generate_request, response_of
from tests.support.relay_server import CHAT, COMPLETIONS, RELAY, text_of
from tests.support.upstream_server import GENERATE, answer, stream
from tests.support.vocabularies import manifest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.relay_server import RelayServer
    from tests.support.upstream_server import UpstreamServer

    from .conftest import Serve

PIECES: Final = {"alpha": [b"a", b"b", b"<end>"], "beta": [b"x", b"y", b"<end>"], "damaged": [b"", b"", b"d"]}
PATHS: Final = {CHAT: "chat_request", COMPLETIONS: "completion_request"}


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models, one of which is damaged where no manifest says."""
    folder = tmp_path_factory.mktemp("layer")
    for name, pieces in PIECES.items():
        content = dump(manifest(name=name), pieces)
        (folder / f"{name}.vocab").write_bytes(content[:-1] + b"?" if name == "damaged" else content)
    return folder


@pytest.fixture
def several(serve: Serve, layer: Path) -> RelayServer:
    """The relay of these models, of which none is the default."""
    return serve(layer=str(layer), served_model_name="b=beta")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("model", "text"), [("alpha", "ab"), ("beta", "xy"), ("b", "xy")])
def test_a_request_is_relayed_as_one_of_its_model(
    upstream: UpstreamServer, several: RelayServer, path: str, model: str, text: str, streamed: bool
) -> None:
    request = {**generate_request(model=model), "token_ids": [0]}
    output = stream(chunks_of([0, 1])) if streamed else answer(response_of([0, 1]))
    upstream.respond = lambda asked: output if asked.path == GENERATE else answer(request)
    client = {"model": model, "stream": streamed}
    for url, body in (
        (path, {**client, "messages": [], "prompt": ""}),
        (path + RELAY, {"generate_request": request, PATHS[path]: client}),
        (path + RELAY, {"generate_request": request, "model": model, PATHS[path]: {**client, "model": "?"}}),
    ):
        if streamed:
            events = several.stream(url, body)
            assert text_of(events) == text
            assert {event["model"] for event in events} == {model}
        else:
            answered = several.post(url, body).json()
            (choice,) = answered["choices"]
            assert (choice["text"] if "text" in choice else choice["message"]["content"]) == text
            assert answered["model"] == model


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("model", "status"), [(None, 400), ("gamma", 404), ("damaged", 500)], ids=["none", "unknown", "damaged"]
)
def test_nobody_is_asked_where_there_is_no_such_model(
    upstream: UpstreamServer, several: RelayServer, path: str, model: str | None, status: int
) -> None:
    client: dict[str, Any] = {"model": model, "stream": True}
    for url, body in (
        (path, {**client, "messages": [], "prompt": ""}),
        (path + RELAY, {"generate_request": generate_request(), PATHS[path]: client}),
    ):
        response = several.post(url, body)
        assert response.status_code == status
        assert json.loads(response.content)["error"]["param"] == "model"
    assert not upstream.requests
