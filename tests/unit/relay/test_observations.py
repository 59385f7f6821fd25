"""What the relay reports about its answers."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from derender.telemetry.observation import AnswerFacts
from derender.telemetry.tally import Tally
from tests.support.generate_protocol import chunks_of, generate_request, response_of
from tests.support.qwen3 import END, PROMPT, qwen3
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY
from tests.support.relay_in_process import InProcessRelay
from tests.support.relay_requests import relay_chat
from tests.support.upstream_server import GENERATE, Reply, answer, break_off, sse, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from derender.telemetry.observation import Observation
    from tests.support.relay_in_process import UpstreamTransport
    from tests.support.upstream_server import ReceivedRequest

OUTPUT = [9707, END]


@pytest.fixture
def observations() -> list[Observation]:
    return []


@pytest.fixture
def relay(transport: UpstreamTransport, observations: list[Observation]) -> Iterator[InProcessRelay]:
    environment = {
        "DERENDER_UPSTREAMS": '{"gpu": "http://gpu.internal"}',
        "DERENDER_RENDER_URL": "http://gpu.internal",
        "DERENDER_SERVED_MODEL_NAME": "m",
    }
    with closing(InProcessRelay(environment, transport, observe=observations.append)) as relay:
        yield relay


def test_a_stream(relay: InProcessRelay, upstream: UpstreamTransport, observations: list[Observation]) -> None:
    sampled = {"token_id": 9707, "logprob": -1.0}
    chunks = [*chunks_of(OUTPUT), *chunks_of(qwen3().encode("<think>"), index=1)]
    chunks[0]["choices"][0]["logprobs"] = {"content": [{**sampled, "top_logprobs": [sampled]}]}
    upstream.replies(stream(chunks))
    relay.stream(CHAT + RELAY, relay_chat(n=2))
    (observation,) = observations
    assert observation.answer == AnswerFacts(
        completion_id="chatcmpl-1",
        model="m",
        streamed=True,
        parsers=("hermes", "qwen3"),
        tally=Tally(
            prompt_tokens=len(PROMPT),
            completion_tokens=3,
            choices=2,
            candidates=1,
            outcomes={"text": 1, "unanswered": 1},
        ),
    )


def test_the_tallies_of_all_prompts_add_up(
    relay: InProcessRelay, upstream: UpstreamTransport, observations: list[Observation]
) -> None:
    def respond(received: ReceivedRequest) -> Reply:
        return stream(chunks_of(OUTPUT)) if received.path == GENERATE else answer([generate_request()] * 3)

    upstream.respond = respond
    relay.stream(COMPLETIONS, {"prompt": ["a", "b", "c"], "stream": True})
    (observation,) = observations
    assert observation.answer.tally == Tally(prompt_tokens=3 * len(PROMPT), completion_tokens=6, choices=3)


def test_a_broken_stream_counts_what_came(
    relay: InProcessRelay, upstream: UpstreamTransport, observations: list[Observation]
) -> None:
    upstream.replies(Reply([*map(sse, chunks_of(OUTPUT, finish_reason=None)), break_off]))
    relay.post(CHAT + RELAY, relay_chat())
    (observation,) = observations
    assert (observation.status, observation.error) == (502, "UpstreamLost")
    assert observation.answer.tally == Tally(prompt_tokens=len(PROMPT), completion_tokens=2)


@pytest.mark.parametrize(
    ("reply", "tally"),
    [
        (
            answer(response_of(OUTPUT)),
            Tally(prompt_tokens=len(PROMPT), completion_tokens=2, choices=1, outcomes={"text": 1}),
        ),
        (answer({}, 500), Tally(prompt_tokens=len(PROMPT))),
    ],
    ids=["complete", "failed"],
)
def test_a_complete_answer(
    relay: InProcessRelay,
    upstream: UpstreamTransport,
    observations: list[Observation],
    reply: Reply,
    tally: Tally,
) -> None:
    upstream.replies(reply)
    relay.post(CHAT + RELAY, relay_chat(stream=False))
    (observation,) = observations
    assert (observation.answer.model, observation.answer.streamed) == ("m", False)
    assert observation.answer.tally == tally
