"""Names of models: clients, derender, the render service and the generate server may each have their own."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.generate_protocol import chunks_of, generate_request, response_of
from tests.support.qwen3 import END
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY
from tests.support.relay_faults import BAD_GATEWAY, TIMEOUT, read_error
from tests.support.relay_in_process import InProcessRelay
from tests.support.relay_requests import relay_chat
from tests.support.upstream_server import GENERATE, RENDER_CHAT, Reply, answer, break_off, hang, stream
from tests.support.vllm_answers import list_models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.relay_in_process import UpstreamTransport
    from tests.support.upstream_server import ReceivedRequest

    Make = Callable[..., InProcessRelay]

pytestmark = pytest.mark.usefixtures("_clean_log")

OUTPUT: Final = [9707, END]
both_ways = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "complete"])


@pytest.fixture
def make(transport: UpstreamTransport) -> Iterator[Make]:
    """Makes a relay that has asked no server yet. Clients call the model `alias` and `m`."""
    relays: list[InProcessRelay] = []

    def make(gpu: dict[str, Any] = {}, render: dict[str, Any] = {}) -> InProcessRelay:  # noqa: B006
        environment = {
            "DERENDER_UPSTREAMS": json.dumps({"gpu": {"url": "http://gpu.internal", **gpu}}),
            "DERENDER_RENDER_URL": json.dumps({"url": "http://render.internal", **render}),
            "DERENDER_SERVED_MODEL_NAME": "alias,m",
        }
        relays.append(InProcessRelay(environment, transport))
        return relays[-1]

    yield make
    for relay in relays:
        with closing(relay):
            pass


@pytest.fixture
def upstream(upstream: UpstreamTransport) -> UpstreamTransport:
    """Servers that render and generate."""

    def respond(received: ReceivedRequest) -> Reply:
        if received.path != GENERATE:
            request = generate_request(model=received.body["model"])
            return answer(request if received.path == RENDER_CHAT else [request, request])
        return stream(chunks_of(OUTPUT)) if received.body["stream"] else answer(response_of(OUTPUT))

    upstream.respond = respond
    return upstream


def names(upstream: UpstreamTransport) -> list[str | None]:
    return [received.body.get("model") for received in upstream.requests]


def name_in_answer(relay: InProcessRelay, path: str, body: dict[str, Any]) -> str:
    response = relay.post(path, body)
    assert response.status_code == 200, response.text
    name: str = json.loads(response.text.removeprefix("data: ").split("\n\n")[0])["model"]
    return name


# --- by default -----------------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize(
    ("served", "asked", "sent"),
    [
        (["Qwen/Qwen3-8B"], "alias", "Qwen/Qwen3-8B"),
        (["Qwen/Qwen3-8B"], None, "Qwen/Qwen3-8B"),
        (["big", "alias"], "alias", "alias"),
        (["big", "alias"], "m", "big"),
        (["big", "alias"], None, "alias"),
    ],
)
def test_servers_get_the_clients_name_if_they_have_it_or_else_their_own(
    make: Make,
    upstream: UpstreamTransport,
    served: list[str],
    asked: str | None,
    sent: str,
    *,
    streamed: bool,
) -> None:
    upstream.models = served
    relay = make()
    for path, body in (
        (CHAT, {"messages": [], "model": asked, "stream": streamed}),
        (CHAT + RELAY, relay_chat(generate_request(model=None), model=asked, stream=streamed)),
        (CHAT + RELAY, relay_chat(generate_request(model="unknown"), model=asked, stream=streamed)),
    ):
        assert name_in_answer(relay, path, body) == (asked or "alias")
    assert names(upstream) == [sent] * 3 + [served[0]]
    assert len(upstream.listings) == 2


@both_ways
def test_the_name_in_a_generate_request_counts_if_the_server_has_it(
    make: Make, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    upstream.list_models = lambda: answer(list_models(["big"], adapters=["tuned"]))
    upstream.models = ["big", "tuned"]
    relay = make()
    for model in ("tuned", "big", "other"):
        body = relay_chat(generate_request(model=model), model="m", stream=streamed)
        assert name_in_answer(relay, CHAT + RELAY, body) == "m"
    assert names(upstream) == ["tuned", "big", "big"]


@both_ways
def test_a_server_is_asked_once(make: Make, upstream: UpstreamTransport, *, streamed: bool) -> None:
    upstream.models = ["big"]
    relay = make()
    for _ in range(2):
        assert name_in_answer(relay, COMPLETIONS, {"prompt": ["a", "b"], "stream": streamed}) == "alias"
    assert names(upstream) == ["big"] * 6
    assert [received.path for received in upstream.listings] == ["/v1/models"] * 2


@both_ways
def test_a_server_that_does_not_know_its_name_any_more_is_asked_again(
    make: Make, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    relay = make()
    body = {"prompt": ["a", "b"], "stream": streamed}
    for served in ("old", "new"):
        upstream.models = [served]
        assert name_in_answer(relay, COMPLETIONS, body) == "alias"
    assert set(names(upstream)) == {"old", "new"}
    assert names(upstream)[-1] == "new"
    # The requests for both prompts share what the server lists.
    assert len(upstream.listings) == 4


@both_ways
def test_a_server_that_does_not_know_its_own_name_fails(
    make: Make, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    upstream.list_models = lambda: answer(list_models(["not there"]))
    response = make().post(CHAT + RELAY, relay_chat(stream=streamed))
    assert read_error(response) == BAD_GATEWAY
    assert "served_model_name" in response.json()["error"]["message"]
    assert (len(upstream.requests), len(upstream.listings)) == (1, 2)


@both_ways
@pytest.mark.parametrize(
    "reply",
    [answer({}, 404), answer({}, 405), answer({}, 501), answer({"data": []})],
    ids=["404", "405", "501", "none"],
)
def test_a_server_that_lists_no_models_gets_the_name_that_came(
    make: Make, upstream: UpstreamTransport, reply: Reply, *, streamed: bool
) -> None:
    upstream.list_models = lambda: reply
    upstream.models = ["alias", "other"]
    relay = make()
    assert name_in_answer(relay, CHAT, {"messages": [], "model": "alias", "stream": streamed}) == "alias"
    request: Any = generate_request(model="other")
    body = relay_chat(request, model="m", stream=streamed)
    assert name_in_answer(relay, CHAT + RELAY, body) == "m"
    del request["model"]
    assert name_in_answer(relay, CHAT + RELAY, body) == "m"
    assert names(upstream) == ["alias", "alias", "other", None]


@both_ways
def test_a_server_of_several_models_must_have_the_name(
    make: Make, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    upstream.list_models = lambda: answer({"data": [{"id": "m"}, {"id": "other"}]})
    relay = make()
    assert name_in_answer(relay, CHAT, {"messages": [], "model": "m", "stream": streamed}) == "m"
    response = relay.post(CHAT, {"messages": [], "model": "alias", "stream": streamed})
    assert read_error(response) == BAD_GATEWAY
    assert "the server has 2 models" in response.json()["error"]["message"]
    assert names(upstream) == ["m", "m"]


# --- in the settings ------------------------------------------------------------------------------------------


@both_ways
def test_a_server_whose_name_is_set_is_not_asked(
    make: Make, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    upstream.models = ["of gpu", "of render", "alias"]
    relay = make({"served_model_name": "of gpu"}, {"served_model_name": "of render"})
    for model in (None, "alias", "m"):
        body: Any = {"messages": [], "model": model, "stream": streamed}
        assert name_in_answer(relay, CHAT, body) == (model or "alias")
    assert names(upstream) == ["of render", "of gpu"] * 3
    assert upstream.listings == []


@both_ways
def test_a_name_that_is_set_and_wrong_is_an_error(
    make: Make, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    relay = make({"served_model_name": "wrong"})
    assert read_error(relay.post(CHAT + RELAY, relay_chat(stream=streamed))) == BAD_GATEWAY
    assert (names(upstream), upstream.listings) == (["wrong"], [])


# --- faults ---------------------------------------------------------------------------------------------------

LISTINGS: Final[dict[str, tuple[Reply, tuple[int, str], str]]] = {
    "is lost": (Reply([], before=[break_off]), BAD_GATEWAY, "was lost"),
    "does not come": (Reply([], before=[hang]), TIMEOUT, "was silent"),
    "is not JSON": (Reply([b"quixotic"]), BAD_GATEWAY, "not a list of models"),
    "is of something else": (answer({"models": ["quixotic"]}), BAD_GATEWAY, "not a list of models"),
    "has no names": (answer({"data": [{"id": 7}]}), BAD_GATEWAY, "not a list of models"),
    "is too large": (Reply([b" " * (1 << 20)] * 2), BAD_GATEWAY, "not a list of models"),
    "is forbidden": (answer({"error": {"message": "quixotic"}}, 403), BAD_GATEWAY, "served_model_name"),
    "fails": (
        answer({"error": {"message": "quixotic"}}, 500),
        BAD_GATEWAY,
        "responded to /v1/models with status 500",
    ),
    "has to wait": (
        answer({"error": {"message": "slow down"}}, 429),
        (429, "RateLimitError"),
        "slow down",
    ),
}


@both_ways
@pytest.mark.parametrize("path", [CHAT, CHAT + RELAY], ids=["render service", "generate server"])
@pytest.mark.parametrize(("reply", "error", "message"), LISTINGS.values(), ids=LISTINGS)
def test_a_list_of_models_that_can_not_be_used(
    make: Make,
    upstream: UpstreamTransport,
    reply: Reply,
    error: tuple[int, str],
    message: str,
    path: str,
    *,
    streamed: bool,
) -> None:
    upstream.list_models = lambda: reply
    relay = make()
    body: Any = relay_chat(stream=streamed) if RELAY in path else {"messages": [], "stream": streamed}
    response = relay.post(path, body)
    assert read_error(response) == error
    assert message in response.json()["error"]["message"]
    assert upstream.requests == []
    # The next request asks again.
    upstream.list_models = lambda: answer(list_models(["m"]))
    assert name_in_answer(relay, path, body) in ("m", "alias")
