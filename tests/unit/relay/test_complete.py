"""Complete answers: what a generate server may return, and what is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.support.generate_protocol import generate_request, response_of
from tests.support.qwen3 import END, qwen3
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY
from tests.support.relay_faults import BAD_GATEWAY, TIMEOUT, read_error
from tests.support.upstream_server import GENERATE, Reply, answer, break_off, hang, pause

if TYPE_CHECKING:
    from tests.support.relay_in_process import InProcessRelay, UpstreamTransport
    from tests.support.upstream_server import ReceivedRequest

pytestmark = pytest.mark.usefixtures("_clean_log")

RESPONSES: Final[dict[str, tuple[Reply, tuple[int, str]]]] = {
    "is lost": (Reply([], before=[break_off]), BAD_GATEWAY),
    "is truncated": (Reply([b'{"choices"', break_off]), BAD_GATEWAY),
    "does not come": (Reply([], before=[hang]), TIMEOUT),
    "stops": (Reply([b'{"choices"', hang]), TIMEOUT),
    "is empty": (Reply([]), BAD_GATEWAY),
    "is not JSON": (Reply([b"quixotic"]), BAD_GATEWAY),
    "is not a generate response": (answer({"text": "quixotic"}), BAD_GATEWAY),
    "has ids of another vocabulary": (answer(response_of([151_936])), BAD_GATEWAY),
    "has no ids": (answer(response_of([])), BAD_GATEWAY),
    "has no choices": (answer({"choices": []}), BAD_GATEWAY),
    "has too many choices": (answer(response_of([1], [2])), BAD_GATEWAY),
    "is too large": (Reply([b" " * (1 << 20)] * 9), BAD_GATEWAY),
}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize(("reply", "error"), RESPONSES.values(), ids=RESPONSES)
def test_a_response_that_cannot_be_derendered(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, reply: Reply, error: tuple[int, str], path: str
) -> None:
    upstream.replies(reply)
    assert read_error(plain_relay.post(path + RELAY, {"generate_request": generate_request()})) == error


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_an_ordinary_end_of_turn_has_no_stop_reason(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, path: str
) -> None:
    """A generate server without a tokenizer reports the id that ended the turn."""
    response = response_of([*qwen3().encode("Hi"), END])
    response["choices"][0]["stop_reason"] = END
    upstream.replies(answer(response))
    (choice,) = plain_relay.post(path + RELAY, {"generate_request": generate_request()}).json()["choices"]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", None)


def test_a_failed_prompt_cancels_the_others(plain_relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    def respond(received: ReceivedRequest) -> Reply:
        if received.path != GENERATE:
            return answer([generate_request(request_id=name) for name in ("good", "bad")])
        if received.body["request_id"] == "bad":
            return Reply([pause(0.01)], 500)
        return Reply([b" ", pause(60)])

    upstream.respond = respond
    assert read_error(plain_relay.post(COMPLETIONS, {"prompt": ["a", "b"]})) == BAD_GATEWAY
    (good,) = (
        received
        for received in upstream.requests
        if received.path == GENERATE and received.body["request_id"] == "good"
    )
    assert good.cancelled.is_set()
