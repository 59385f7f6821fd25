"""Models: a request is answered by its model's vocabulary, generate server and render service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.models.layer import load_models
from derender.relay import read_relay_settings
from derender.relay.app import create_relay_app
from derender.settings import Settings, SettingsError
from derender.vocabulary import dump
from tests.support.generate_protocol import chunks_of, generate_request, response_of
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY, text_of
from tests.support.relay_faults import read_error
from tests.support.relay_requests import relay_chat
from tests.support.streams import whole
from tests.support.upstream_server import GENERATE, answer, stream
from tests.support.vocabularies import manifest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.relay_in_process import InProcessRelay, UpstreamTransport
    from tests.support.upstream_server import ReceivedRequest, Reply

    from .conftest import RelayFactory

pytestmark = pytest.mark.usefixtures("_clean_log")

PIECES: Final = {"alpha": [b"a", b"b", b"<end>"], "beta": [b"x", b"y", b"<end>"], "damaged": [b"", b"", b"d"]}
FIELDS: Final = {CHAT: "chat_request", COMPLETIONS: "completion_request"}


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models. One is damaged where its manifest does not tell."""
    folder = tmp_path_factory.mktemp("layer")
    for name, pieces in PIECES.items():
        content = dump(manifest(name=name), pieces)
        (folder / f"{name}.vocab").write_bytes(content[:-1] + b"?" if name == "damaged" else content)
    return folder


@pytest.fixture
def several(make_relay: RelayFactory, layer: Path) -> InProcessRelay:
    """The relay with these models. None is the default."""
    return make_relay(layer=str(layer), served_model_name="b=beta")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("path", FIELDS)
@pytest.mark.parametrize(("model", "text"), [("alpha", "ab"), ("beta", "xy"), ("b", "xy")])
def test_a_request_is_derendered_with_the_vocabulary_of_its_model(
    upstream: UpstreamTransport, several: InProcessRelay, path: str, model: str, text: str, *, streamed: bool
) -> None:
    request = {**generate_request(model=model), "token_ids": [0]}
    output = stream(chunks_of([0, 1])) if streamed else answer(response_of([0, 1]))
    upstream.respond = lambda received: output if received.path == GENERATE else answer(request)
    client = {"model": model, "stream": streamed}
    for url, body in (
        (path, {**client, "messages": [], "prompt": ""}),
        (path + RELAY, {"generate_request": request, FIELDS[path]: client}),
        (path + RELAY, {"generate_request": request, "model": model, FIELDS[path]: {**client, "model": "?"}}),
    ):
        if streamed:
            events = several.stream(url, body)
            assert text_of(events) == text
            assert {event["model"] for event in events} == {model}
        else:
            response = several.post(url, body).json()
            assert whole(response)[0].content == text
            assert response["model"] == model


@pytest.mark.parametrize("path", FIELDS)
@pytest.mark.parametrize(
    ("model", "status"), [(None, 400), ("gamma", 404), ("damaged", 500)], ids=["none", "unknown", "damaged"]
)
def test_a_request_without_a_usable_model_reaches_no_upstream(
    upstream: UpstreamTransport, several: InProcessRelay, path: str, model: str | None, status: int
) -> None:
    client: dict[str, Any] = {"model": model, "stream": True}
    for url, body in (
        (path, {**client, "messages": [], "prompt": ""}),
        (path + RELAY, {"generate_request": generate_request(), FIELDS[path]: client}),
    ):
        response = several.post(url, body)
        assert response.status_code == status
        assert response.json()["error"]["param"] == "model"
    assert not upstream.requests


# --- servers of models ----------------------------------------------------------------------------------------

UPSTREAMS: Final[dict[str, Any]] = {
    "first": {"url": "http://first.internal", "model": "beta", "served_model_name": "m"},
    "any": "http://any.internal",
    "alpha": {
        "url": "http://alpha.internal",
        "model": "alpha",
        "render": {"url": "http://render-alpha.internal", "headers": {"x-key": "${TOKEN}"}},
    },
    "beta": {"url": "http://beta.internal", "model": "beta", "render": "http://render-beta.internal"},
}


@pytest.fixture
def upstream(upstream: UpstreamTransport) -> UpstreamTransport:
    """Servers that render and generate."""

    def respond(received: ReceivedRequest) -> Reply:
        if received.path != GENERATE:
            return answer(generate_request(token_ids=[0]))
        return stream(chunks_of([0, 1])) if received.body["stream"] else answer(response_of([0, 1]))

    upstream.respond = respond
    return upstream


@pytest.fixture
def distributed(make_relay: RelayFactory, layer: Path) -> InProcessRelay:
    """The relay with these models, and servers of their own for some of them."""
    return make_relay(
        layer=str(layer),
        served_model_name="a=alpha",
        upstreams=json.dumps(UPSTREAMS),
        render_url="http://render.internal",
    )


def hosts(upstream: UpstreamTransport) -> list[str]:
    """The servers that were called."""
    return [received.headers["host"].removesuffix(".internal") for received in upstream.requests]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("model", "called"),
    [("alpha", ["render-alpha", "alpha"]), ("a", ["render-alpha", "alpha"]), ("beta", ["render", "first"])],
)
def test_a_request_is_answered_by_the_servers_of_its_model(
    distributed: InProcessRelay, upstream: UpstreamTransport, model: str, called: list[str], *, streamed: bool
) -> None:
    body = {"model": model, "messages": [], "stream": streamed}
    response = distributed.post(CHAT, body)
    assert response.status_code == 200
    assert f'"model":"{model}"' in response.text
    assert hosts(upstream) == called
    assert ("x-key" in upstream.requests[0].headers) is (called[0] == "render-alpha")
    request = generate_request(token_ids=[0])
    assert distributed.post(CHAT + RELAY, relay_chat(request, model=model, stream=streamed)).status_code == 200
    assert hosts(upstream) == [*called, called[1]]


def test_a_model_without_a_server_of_its_own_has_one_that_serves_all(
    make_relay: RelayFactory, layer: Path, upstream: UpstreamTransport
) -> None:
    upstreams = {name: UPSTREAMS[name] for name in ("any", "alpha")}
    relay = make_relay(
        layer=str(layer),
        served_model_name="",
        upstreams=json.dumps(upstreams),
        render_url="http://render.internal",
    )
    for model in ("beta", "alpha"):
        assert relay.post(CHAT, {"model": model, "messages": []}).status_code == 200
    assert hosts(upstream) == ["render", "any", "render-alpha", "alpha"]


def test_clients_choose_among_the_servers_of_a_model(
    distributed: InProcessRelay, upstream: UpstreamTransport
) -> None:
    request = relay_chat(generate_request(token_ids=[0]), model="beta", stream=False)
    for name in ("beta", "any"):
        assert distributed.post(CHAT + RELAY, {**request, "upstream": name}).status_code == 200
    assert hosts(upstream) == ["beta", "any"]
    response = distributed.post(CHAT + RELAY, {**request, "upstream": "alpha"})
    assert read_error(response) == (400, "BadRequestError")
    error = response.json()["error"]
    assert (error["param"], error["message"]) == (
        "model",
        "The upstream `alpha` serves the model `alpha`, not `beta`.",
    )
    assert hosts(upstream) == ["beta", "any"]


def test_a_model_that_no_server_serves_is_not_found(
    make_relay: RelayFactory, layer: Path, upstream: UpstreamTransport
) -> None:
    relay = make_relay(
        layer=str(layer),
        served_model_name="",
        upstreams=json.dumps({"alpha": UPSTREAMS["alpha"]}),
        render_url="",
    )
    assert relay.post(CHAT, {"model": "alpha", "messages": []}).status_code == 200
    for path in (CHAT, COMPLETIONS):
        response = relay.post(path, {"model": "beta", "messages": []})
        assert read_error(response) == (404, "NotFoundError")
        assert response.json()["error"]["param"] == "model"
    assert hosts(upstream) == ["render-alpha", "alpha"]


def test_a_model_without_a_render_service_takes_generate_requests(
    make_relay: RelayFactory, layer: Path, upstream: UpstreamTransport
) -> None:
    upstreams = {"alpha": UPSTREAMS["alpha"], "beta": "http://beta.internal"}
    relay = make_relay(layer=str(layer), served_model_name="", upstreams=json.dumps(upstreams), render_url="")
    response = relay.post(CHAT, {"model": "beta", "messages": []})
    assert read_error(response) == (404, "NotFoundError")
    assert "no render service" in response.json()["error"]["message"]
    request = relay_chat(generate_request(token_ids=[0]), model="beta", stream=False)
    assert relay.post(CHAT + RELAY, request).status_code == 200
    assert hosts(upstream) == ["beta"]


def test_all_names_of_all_models_are_listed(distributed: InProcessRelay) -> None:
    listed = distributed.get("/v1/models").json()["data"]
    assert {model["id"] for model in listed} == {"a", "alpha", "beta", "damaged"}


def test_a_server_of_a_model_that_the_layer_lacks_stops_the_start(layer: Path) -> None:
    environment = {
        "DERENDER_LAYER": str(layer),
        "DERENDER_UPSTREAMS": '{"any": "http://any", "gpu": {"url": "http://gpu", "model": "gamma"}}',
    }
    settings = Settings.from_environment(environment)
    relay = read_relay_settings(settings, environment)
    assert relay is not None
    with pytest.raises(SettingsError) as error:
        create_relay_app(load_models(settings), relay, max_body_bytes=1)
    expected = "DERENDER_UPSTREAMS: gpu: names the model 'gamma'; the layer has alpha, beta, damaged"
    assert str(error.value) == expected
