"""Observations of relayed requests, and the request ids that upstreams get."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.telemetry.observation import CLIENT_LEFT
from tests.support.generate_protocol import chunks_of, generate_request, usage
from tests.support.qwen3 import END, PROMPT, qwen3
from tests.support.qwen3_outputs import CALL, TOOLS, generated
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY
from tests.support.upstream_server import (
    DONE,
    GENERATE,
    RENDER_CHAT,
    Reply,
    answer,
    break_off,
    hang,
    meet,
    sse,
    stream,
)
from tests.support.waiting import wait_until

from .test_requests import fields_of

if TYPE_CHECKING:
    from tests.support.relay_server import RelayServer
    from tests.support.upstream_server import ReceivedRequest, UpstreamServer

    from .conftest import Observed

OUTPUT: Final = [*qwen3().encode(f"One.\n{CALL}"), END]
CUT: Final = [*qwen3().encode("One")]
ERROR: Final = {"error": {"message": "no more", "type": "X", "param": None, "code": 500}}
CANDIDATES: Final = {
    "logprobs": {
        "content": [{"token_id": 1, "logprob": -1.0, "top_logprobs": [{"token_id": 1, "logprob": -1.0}] * 2}]
    }
}


def asked(*, streamed: bool = True, upstream: str | None = None, **client: Any) -> dict[str, Any]:
    chat = {"model": "Qwen3", "messages": [], "tools": TOOLS, "stream": streamed, **client}
    return {"generate_request": generate_request(), "chat_request": chat, "upstream": upstream}


def test_a_stream(relay: RelayServer, upstream: UpstreamServer, observed: Observed) -> None:
    chunks = chunks_of(OUTPUT)
    chunks[0]["choices"][0] |= CANDIDATES
    upstream.replies(stream([*chunks, usage(len(PROMPT), len(OUTPUT))]))
    body = json.dumps(asked()).encode()
    response = relay.post(CHAT + RELAY, body)
    assert fields_of(observed.only) == {
        "endpoint": CHAT + RELAY,
        "method": "POST",
        "status": 200,
        "request_bytes": len(body),
        "response_bytes": len(response.content),
        "request_id": response.headers["x-request-id"],
        "completion_id": "chatcmpl-1",
        "model": "Qwen3",
        "streamed": True,
        "prompt_tokens": len(PROMPT),
        "completion_tokens": len(OUTPUT),
        "choices": 1,
        "candidates": 2,
        "parsers": ("hermes", "qwen3"),
        "outcomes": {"tool_calls": 1},
    }


def test_a_complete_answer(relay: RelayServer, upstream: UpstreamServer, observed: Observed) -> None:
    upstream.replies(answer(generated(OUTPUT, OUTPUT[:1])))
    asking = asked(streamed=False, n=2)
    assert relay.post(CHAT + RELAY, asking).status_code == 200
    assert (observed.answer.streamed, observed.tally.choices, observed.answer.model) == (False, 2, "Qwen3")
    assert (observed.tally.prompt_tokens, observed.tally.completion_tokens) == (
        len(PROMPT),
        len(OUTPUT) + 1,
    )
    assert observed.tally.outcomes == {"tool_calls": 1, "text": 1}


def test_several_prompts_are_one_request(
    relay: RelayServer, upstream: UpstreamServer, observed: Observed
) -> None:
    rendered = [generate_request(request_id=f"cmpl-{number}") for number in range(3)]
    upstream.respond = lambda question: (
        stream(chunks_of(CUT, finish_reason="length")) if question.path == GENERATE else answer(rendered)
    )
    relay.stream(COMPLETIONS, {"prompt": ["a", "b", "c"], "stream": True})
    told = observed.only
    assert (told.endpoint, observed.answer.completion_id, observed.tally.choices) == (COMPLETIONS, "cmpl-0", 3)
    assert (observed.tally.prompt_tokens, observed.tally.completion_tokens) == (
        3 * len(PROMPT),
        3 * len(CUT),
    )
    assert (observed.answer.parsers, observed.tally.outcomes) == ((), {})


def test_several_choices_of_a_chat(relay: RelayServer, upstream: UpstreamServer, observed: Observed) -> None:
    choices = [*chunks_of(OUTPUT, index=0), *chunks_of(CUT, index=1, finish_reason="length")]
    upstream.replies(stream(choices))
    relay.stream(CHAT + RELAY, asked(n=2))
    assert observed.tally.outcomes == {"tool_calls": 1, "cut": 1}


def test_a_stop_string_ends_a_choice(relay: RelayServer, upstream: UpstreamServer, observed: Observed) -> None:
    upstream.replies(Reply([*map(sse, chunks_of(qwen3().encode("one two three four"))), hang]))
    relay.stream(CHAT + RELAY, asked(stop=["three"]))
    assert (observed.tally.choices, observed.tally.outcomes) == (1, {"text": 1})


FAULTS: Final[dict[str, tuple[Reply, int, str]]] = {
    "busy": (answer({"message": "slow down"}, 429), 429, "UpstreamBusy"),
    "refused": (answer({"message": "max_tokens is too large"}, 400), 400, "UpstreamRefusal"),
    "busy for now": (answer(ERROR, 503), 503, "UpstreamBusy"),
    "failed": (answer(ERROR, 500), 502, "UpstreamFailed"),
    "failed in its stream": (stream([*chunks_of(CUT, finish_reason=None), ERROR]), 502, "UpstreamFailed"),
    "lost": (Reply([break_off], before=[break_off]), 502, "UpstreamLost"),
    "lost in its stream": (Reply([*map(sse, chunks_of(OUTPUT)[:3]), break_off]), 502, "UpstreamLost"),
    "ended too early": (stream(chunks_of(CUT, finish_reason=None)), 502, "UpstreamLost"),
    "silent": (Reply([], before=[hang]), 504, "GatewayTimeout"),
    "silent in its stream": (Reply([*map(sse, chunks_of(OUTPUT)[:3]), hang]), 504, "GatewayTimeout"),
    "another model's": (stream([{"choices": [{"index": 0, "token_ids": [151_936]}]}]), 502, "BadGateway"),
    "no JSON": (Reply([b"data: quixotic\n\n"]), 502, "BadGateway"),
}


@pytest.mark.parametrize(("reply", "status", "error"), FAULTS.values(), ids=FAULTS)
def test_an_upstream_fault_has_a_kind(
    relay: RelayServer, upstream: UpstreamServer, observed: Observed, reply: Reply, status: int, error: str
) -> None:
    upstream.replies(reply)
    relay.post(CHAT + RELAY, asked())
    told = observed.only
    assert (told.status, told.error) == (status, error)
    assert (observed.answer.model, observed.answer.streamed, observed.tally.prompt_tokens) == (
        "Qwen3",
        True,
        len(PROMPT),
    )
    assert (observed.tally.choices, observed.tally.outcomes) == (0, {})


@pytest.mark.parametrize(
    ("reply", "error"),
    [(answer(ERROR, 500), "UpstreamFailed"), (answer(generated([151_936])), "BadGateway")],
)
def test_a_fault_of_a_complete_answer(
    relay: RelayServer, upstream: UpstreamServer, observed: Observed, reply: Reply, error: str
) -> None:
    upstream.replies(reply)
    assert relay.post(CHAT + RELAY, asked(streamed=False)).status_code == 502
    told = observed.only
    assert (told.error, observed.answer.model, observed.tally.prompt_tokens) == (error, "Qwen3", len(PROMPT))
    assert (observed.answer.streamed, observed.tally.choices) == (False, 0)


@pytest.mark.parametrize("streamed", [True, False])
def test_an_unreachable_server(relay: RelayServer, observed: Observed, *, streamed: bool) -> None:
    assert relay.post(CHAT + RELAY, asked(upstream="gone", streamed=streamed)).status_code == 502
    assert (observed.only.error, observed.answer.model) == ("UpstreamUnreachable", "Qwen3")


@pytest.mark.usefixtures("upstream")
def test_a_refusal_of_the_relay(relay: RelayServer, observed: Observed) -> None:
    relay.post(CHAT + RELAY, asked(upstream="quixotic"))
    assert (observed.only.status, observed.only.error) == (404, "UpstreamNotFound")


@pytest.mark.parametrize("streamed", [True, False])
def test_a_client_that_leaves(
    relay: RelayServer, upstream: UpstreamServer, observed: Observed, *, streamed: bool
) -> None:
    begun = [sse(chunk) for chunk in chunks_of(OUTPUT)[:3]] if streamed else []
    upstream.replies(Reply([*begun, hang]))
    with relay.connect(CHAT + RELAY, asked(streamed=streamed)) as connection:
        if streamed:
            assert b"data: " in connection.recv(1 << 16)
        upstream.wait_for(1)
    told = observed.only
    assert (told.status, told.error, observed.answer.streamed) == (CLIENT_LEFT, "ClientLeft", streamed)
    assert observed.answer.model == "Qwen3"
    wait_until(upstream.requests[0].cancelled.is_set)


# --- ids ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("name", ["mine-1", None])
def test_upstreams_get_the_request_id(
    relay: RelayServer, upstream: UpstreamServer, observed: Observed, name: str | None, *, streamed: bool
) -> None:
    def respond(question: ReceivedRequest) -> Reply:
        if question.path == RENDER_CHAT:
            return answer(generate_request())
        return stream(chunks_of(OUTPUT)) if streamed else answer(generated(OUTPUT))

    upstream.respond = respond
    headers = {} if name is None else {"x-request-id": name}
    body = {"model": "Qwen3", "messages": [], "stream": streamed}
    response = relay.post(CHAT, body, headers)
    ids = [each.headers["x-request-id"] for each in upstream.requests]
    assert ids == [response.headers["x-request-id"]] * 2 == [observed.only.request_id] * 2
    assert name in (None, ids[0])


def test_concurrent_requests_keep_their_ids(
    relay: RelayServer, upstream: UpstreamServer, observed: Observed
) -> None:
    names = [f"id-{number}" for number in range(5)]
    gate = meet(len(names))
    upstream.respond = lambda _: Reply([gate, *map(sse, chunks_of(OUTPUT)), DONE])

    def ask(name: str) -> str:
        return relay.post(CHAT + RELAY, asked(), {"x-request-id": name}).headers["x-request-id"]

    with ThreadPoolExecutor(len(names)) as clients:
        assert list(clients.map(ask, names)) == names
    assert sorted(each.headers["x-request-id"] for each in upstream.requests) == names
    assert sorted(each.request_id for each in observed.all) == names
