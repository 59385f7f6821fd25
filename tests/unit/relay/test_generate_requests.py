"""What the relay sends to the generate server and the render service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.generate_protocol import chunks_of, generate_request, response_of
from tests.support.qwen3 import END, qwen3
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY, events_of, finishes, text_of
from tests.support.relay_requests import relay_chat
from tests.support.upstream_server import GENERATE, RENDER_CHAT, RENDER_COMPLETIONS, answer, stream

if TYPE_CHECKING:
    from tests.support.relay_in_process import InProcessRelay, UpstreamTransport
    from tests.support.upstream_server import ReceivedRequest, Reply

    from .conftest import RelayFactory

OUTPUT = [9707, END]
"""Hello, and the end of the turn."""


def test_a_generate_request_is_passed_on_unchanged(relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    upstream.replies(stream(chunks_of(OUTPUT)))
    request = generate_request(
        sampling_params={"max_tokens": 7, "temperature": 1.0, "extra": {"a": [None, 1e-7, 2**63]}, "n": 1},
        stream=False,
        stream_options=None,
        features={"of": ["a newer", "server"]},
        cache_salt=None,
        copy=1,
        model_config="",
    )
    relay.stream(CHAT + RELAY, relay_chat(request))
    (received,) = upstream.requests
    assert received.path == GENERATE
    assert received.body == {
        **request,
        "sampling_params": {**request["sampling_params"], "output_kind": 1},
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": False},
    }
    assert received.headers["authorization"] == "Bearer secret-token"
    assert received.headers["content-type"] == "application/json"
    assert received.headers["accept"] == "text/event-stream"


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("rendered", [False, True])
def test_clients_say_where_caches_are_only_if_allowed(
    make_relay: RelayFactory, upstream: UpstreamTransport, *, allowed: bool, rendered: bool
) -> None:
    server = {"url": "http://gpu", "render": "http://render"}
    relay = make_relay(upstreams=json.dumps({"gpu": {**server, "transfer_params": allowed}}))
    transfers = {"kv_transfer_params": {"remote_host": "10.0.0.7"}, "ec_transfer_params": {"a": "10.0.0.7"}}
    request = generate_request(sampling_params={"extra_args": {**transfers, "b": 1}}, **transfers)
    if rendered:
        replies = iter([answer(request), stream(chunks_of(OUTPUT))])
        upstream.respond = lambda _: next(replies)
        relay.stream(CHAT, {"messages": [], "stream": True, **transfers})
    else:
        upstream.replies(stream(chunks_of(OUTPUT)))
        relay.stream(CHAT + RELAY, relay_chat(request))
    received = upstream.requests[-1].body
    assert received["sampling_params"]["extra_args"] == ({**transfers, "b": 1} if allowed else {"b": 1})
    assert [name in received for name in transfers] == [allowed, allowed]


@pytest.mark.parametrize(("given", "sent"), [({}, {}), ({"output_kind": 1}, {"output_kind": 2})])
def test_a_request_for_a_complete_answer_asks_for_one_response(
    relay: InProcessRelay, upstream: UpstreamTransport, given: dict[str, Any], sent: dict[str, Any]
) -> None:
    upstream.replies(answer(response_of(OUTPUT)))
    request = generate_request(
        sampling_params=given, stream=True, stream_options={"include_usage": True}, more=[1]
    )
    assert relay.post(CHAT + RELAY, relay_chat(request, stream=False)).status_code == 200
    (received,) = upstream.requests
    assert received.body == {**request, "sampling_params": sent, "stream": False, "stream_options": None}


@pytest.mark.parametrize("streamed", [True, False])
def test_a_request_without_an_id_gets_one(
    relay: InProcessRelay, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    upstream.replies(stream(chunks_of(OUTPUT, request_id=None)) if streamed else answer(response_of(OUTPUT)))
    request = generate_request()
    del request["request_id"]
    response = relay.post(CHAT + RELAY, relay_chat(request, stream=streamed))
    answers = events_of(response.content)[:-1] if streamed else [response.json()]
    sent = upstream.requests[0].body["request_id"]
    assert len(sent) == 32
    assert {answer["id"] for answer in answers} == {sent}


def test_the_generate_request_says_how_many_choices_there_are(
    plain_relay: InProcessRelay, upstream: UpstreamTransport
) -> None:
    upstream.replies(stream([*chunks_of([9707]), *chunks_of([9707], index=1)]))
    request = relay_chat(generate_request(sampling_params={"n": 2}), n=3)
    assert finishes(plain_relay.stream(CHAT + RELAY, request)) == {0: ["stop"], 1: ["stop"]}


@pytest.mark.parametrize("number", [0, -1, 2.0, "2", True, []])
def test_the_number_of_choices_must_be_a_positive_integer(
    relay: InProcessRelay, upstream: UpstreamTransport, number: object
) -> None:
    response = relay.post(CHAT + RELAY, relay_chat(generate_request(sampling_params={"n": number})))
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (400, "BadRequestError")
    assert error["param"] == "generate_request.sampling_params.n"
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("name", "path"), [(None, GENERATE), ("gpu", GENERATE), ("other", f"/other{GENERATE}")]
)
def test_clients_choose_a_generate_server_by_name(
    relay: InProcessRelay, upstream: UpstreamTransport, name: str | None, path: str
) -> None:
    upstream.replies(stream(chunks_of(OUTPUT)))
    relay.stream(CHAT + RELAY, {**relay_chat(), "upstream": name})
    (received,) = upstream.requests
    assert received.path == path
    assert ("authorization" in received.headers) is (name != "other")


# --- rendered requests ----------------------------------------------------------------------------------------


def render_and_shout(received: ReceivedRequest, prompts: list[str], *, n: int = 1) -> Reply:
    """Render each prompt, and generate it in capitals."""
    if received.path in (RENDER_CHAT, RENDER_COMPLETIONS):
        requests = [
            generate_request(
                request_id=f"cmpl-{place}",
                token_ids=qwen3().encode(prompt),
                sampling_params={"n": n, "output_kind": 2},
            )
            for place, prompt in enumerate(prompts)
        ]
        return answer(requests[0] if received.path == RENDER_CHAT else requests)
    (prompt,) = (each for each in prompts if qwen3().encode(each) == received.body["token_ids"])
    outputs = [qwen3().encode(f"{prompt.upper()} {index}") for index in range(n)]
    if not received.body["stream"]:
        return answer(response_of(*outputs))
    return stream([chunk for index, output in enumerate(outputs) for chunk in chunks_of(output, index=index)])


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("model", ["m", "alias"])
def test_the_render_service_gets_the_clients_request_byte_for_byte(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, model: str, *, streamed: bool
) -> None:
    """But for the name of the model, which is the service's own."""
    upstream.respond = lambda received: render_and_shout(received, ["hello"])
    begin = b'{"stream":%b,"messages":[{"role": "user", "content": "\\u0041"}],' % json.dumps(streamed).encode()
    end = b',"seed":1.50,"big":123456789012345678901234567890}'
    response = plain_relay.post(CHAT, b'%b"model":"%b"%b' % (begin, model.encode(), end))
    assert response.status_code == 200
    render, generate = upstream.requests
    assert (render.path, render.content) == (RENDER_CHAT, b'%b"model":"m"%b' % (begin, end))
    assert render.headers["x-key"] == "secret-token"
    assert "authorization" not in render.headers
    assert (generate.path, generate.body["stream"]) == (GENERATE, streamed)
    assert generate.body["sampling_params"]["output_kind"] == (1 if streamed else 2)
    text = (
        text_of(events_of(response.content)[:-1])
        if streamed
        else response.json()["choices"][0]["message"]["content"]
    )
    assert text == "HELLO 0"


@pytest.mark.parametrize("streamed", [True, False])
def test_choice_j_of_prompt_i_is_choice_i_times_n_plus_j(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    prompts = ["one", "two", "three"]
    upstream.respond = lambda received: render_and_shout(received, prompts, n=2)
    body = {"prompt": prompts, "n": 2, "stream": streamed, "stream_options": {"include_usage": True}}
    if streamed:
        *events, last = plain_relay.stream(COMPLETIONS, body)
        texts = {index: text_of(events, index) for index in range(6)}
        ids = {event["id"] for event in [*events, last]}
        assert last["choices"] == []
    else:
        last = plain_relay.post(COMPLETIONS, body).json()
        texts = {choice["index"]: choice["text"] for choice in last["choices"]}
        ids = {last["id"]}
    assert texts == {
        place * 2 + index: f"{prompt.upper()} {index}"
        for place, prompt in enumerate(prompts)
        for index in range(2)
    }
    assert ids == {"cmpl-0"}
    assert last["usage"]["prompt_tokens"] == sum(len(qwen3().encode(prompt)) for prompt in prompts)
    assert last["usage"]["completion_tokens"] == sum(len(qwen3().encode(text)) for text in texts.values())
