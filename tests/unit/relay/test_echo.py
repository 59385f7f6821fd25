"""Completions that begin with their prompts: the relay's answers are those of vLLM 0.33 with a tokenizer.

`recorded_echoes.jsonl` has, for each client's request, what vLLM's render service made of it, what a generate
server without a tokenizer returned, and what a server with a tokenizer answered.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.generate_protocol import chunks_of, generate_request, response_of
from tests.support.qwen3 import PROMPT, qwen3
from tests.support.relay_client import COMPLETIONS, RELAY, text_of
from tests.support.relay_faults import BAD_GATEWAY, read_error
from tests.support.relay_requests import relay_completion
from tests.support.upstream_server import GENERATE, answer, stream

if TYPE_CHECKING:
    from tests.support.relay_in_process import InProcessRelay, UpstreamTransport
    from tests.support.upstream_server import ReceivedRequest, Reply

pytestmark = pytest.mark.usefixtures("_clean_log")

RECORDED: Final[list[dict[str, Any]]] = [
    json.loads(line) for line in Path(__file__).with_name("recorded_echoes.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: str(recorded["request"]["prompt"]))
def test_an_echo_is_that_of_a_server_with_a_tokenizer(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, recorded: dict[str, Any]
) -> None:
    rendered, generated = recorded["rendered"], recorded["generated"]
    places = {request["request_id"]: place for place, request in enumerate(rendered)}

    def respond(received: ReceivedRequest) -> Reply:
        if received.path == GENERATE:
            return answer(generated[places[received.body["request_id"]]])
        return answer(rendered)

    upstream.respond = respond
    ours = plain_relay.post(COMPLETIONS, recorded["request"]).json()
    theirs = recorded["answer"]
    assert ours["choices"] == theirs["choices"]
    assert ours["usage"] == theirs["usage"]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("client", "text"),
    [
        ({"prompt": "Say:"}, "Say: hello"),
        ({"prompt": [1]}, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n hello"),
        ({"prompt": "Say:", "max_tokens": 0}, "Say:"),
    ],
    ids=str,
)
def test_the_text_is_echoed(
    plain_relay: InProcessRelay,
    upstream: UpstreamTransport,
    client: dict[str, Any],
    text: str,
    *,
    streamed: bool,
) -> None:
    ids = qwen3().encode(" hello")
    upstream.replies(stream(chunks_of(ids)) if streamed else answer(response_of(ids)))
    body = relay_completion(echo=True, stream=streamed, **client)
    if streamed:
        assert text_of(plain_relay.stream(COMPLETIONS + RELAY, body)) == text
    else:
        assert plain_relay.post(COMPLETIONS + RELAY, body).json()["choices"][0]["text"] == text


def test_each_prompt_of_a_stream_is_echoed(plain_relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    rendered = [generate_request(request_id=name) for name in ("one", "two")]
    output = stream(chunks_of(qwen3().encode(" hello"), request_id=None))
    upstream.respond = lambda received: output if received.path == GENERATE else answer(rendered)
    events = plain_relay.stream(COMPLETIONS, {"prompt": ["one", "two"], "echo": True, "stream": True})
    assert [text_of(events, index) for index in (0, 1)] == ["one hello", "two hello"]


@pytest.mark.parametrize(
    ("client", "given", "sent"),
    [
        ({"logprobs": 2}, {}, {"prompt_logprobs": 2}),
        ({"logprobs": 0}, {"prompt_logprobs": 5}, {"prompt_logprobs": 5}),
        ({}, {}, {}),
        ({"max_tokens": 0}, {"max_tokens": 0}, {"max_tokens": 1}),
        ({"max_tokens": 0, "logprobs": 1}, {}, {"max_tokens": 1, "prompt_logprobs": 1}),
        ({"max_tokens": 5}, {"max_tokens": 5}, {"max_tokens": 5}),
        ({"echo": False, "max_tokens": 0, "logprobs": 1}, {"max_tokens": 0}, {"max_tokens": 0}),
    ],
)
def test_the_generate_server_is_asked_for_what_an_echo_needs(
    plain_relay: InProcessRelay,
    upstream: UpstreamTransport,
    client: dict[str, Any],
    given: dict[str, Any],
    sent: dict[str, Any],
) -> None:
    response = {**response_of([1]), "prompt_logprobs": [None, *({str(n): {"logprob": -1}} for n in PROMPT[1:])]}
    upstream.replies(answer(response))
    body = relay_completion(
        generate_request(sampling_params=given), **{"echo": True, "stream": False, **client}
    )
    assert plain_relay.post(COMPLETIONS + RELAY, body).status_code == 200
    (received,) = upstream.requests
    assert received.body["sampling_params"] == sent


@pytest.mark.parametrize("prompt_logprobs", [None, [None]])
def test_a_server_that_returns_no_logprobs_of_the_prompt_is_at_fault(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, prompt_logprobs: list[None] | None
) -> None:
    upstream.replies(answer({**response_of([1]), "prompt_logprobs": prompt_logprobs}))
    body = relay_completion(echo=True, stream=False, logprobs=1)
    assert read_error(plain_relay.post(COMPLETIONS + RELAY, body)) == BAD_GATEWAY


def test_stop_strings_are_not_looked_for_in_the_prompt(
    plain_relay: InProcessRelay, upstream: UpstreamTransport
) -> None:
    upstream.replies(stream(chunks_of(qwen3().encode(" one two STOP"))))
    body = relay_completion(prompt="one two", echo=True, stream=False, stop=["two"])
    (choice,) = plain_relay.post(COMPLETIONS + RELAY, body).json()["choices"]
    assert (choice["text"], choice["stop_reason"]) == ("one two one ", "two")
