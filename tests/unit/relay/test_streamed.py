"""Streamed answers: how they begin, go on and end, also when something goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from derender.relay import generate_streams
from derender.relay.generation import RelayedGeneration
from tests.support.generate_protocol import chunks_of, generate_request
from tests.support.qwen3 import END, qwen3
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY, events_of, finishes, text_of
from tests.support.relay_faults import BAD_GATEWAY, SECRETS, TIMEOUT, read_error
from tests.support.relay_requests import relay_chat, relay_completion
from tests.support.upstream_server import (
    DONE,
    GENERATE,
    Reply,
    answer,
    break_off,
    hang,
    meet,
    pause,
    sse,
    stream,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.relay_in_process import InProcessRelay, UpstreamTransport
    from tests.support.upstream_server import Part, ReceivedRequest

pytestmark = pytest.mark.usefixtures("_clean_log")

ERROR: Final = {"error": {"message": "no more", "type": "X", "param": None, "code": 500}}
OTHER_ENTRY: Final = {"token_id": 151_936, "logprob": -1.0}
OTHER_VOCABULARY: Final = {"choices": [{"index": 0, "token_ids": [151_936]}]}

# --- before the first byte ------------------------------------------------------------------------------------

BEGINNINGS: Final[dict[str, tuple[Reply, tuple[int, str]]]] = {
    "is lost": (Reply([], before=[break_off]), BAD_GATEWAY),
    "is lost after the status": (Reply([break_off]), BAD_GATEWAY),
    "does not come": (Reply([], before=[hang]), TIMEOUT),
    "stops after the status": (Reply([hang]), TIMEOUT),
    "stops in an event": (Reply([b"data: {", hang]), TIMEOUT),
    "is empty": (Reply([]), BAD_GATEWAY),
    "ends at once": (stream([]), BAD_GATEWAY),
    "is not JSON": (Reply([b"data: quixotic\n\n"]), BAD_GATEWAY),
    "is not UTF-8": (Reply([b'data: {"choices": [], "x": "\xff"}\n\n']), BAD_GATEWAY),
    "has no object": (Reply([b"data: []\n\n"]), BAD_GATEWAY),
    "has no choices": (Reply([sse({"text": "quixotic"})]), BAD_GATEWAY),
    "has ids that are strings": (
        Reply([sse({"choices": [{"index": 0, "token_ids": ["quixotic"]}]})]),
        BAD_GATEWAY,
    ),
    "has ids of another vocabulary": (Reply([sse(OTHER_VOCABULARY)]), BAD_GATEWAY),
    "has logprobs of another vocabulary": (
        Reply([sse({"choices": [{"index": 0, "token_ids": [1], "logprobs": {"content": [OTHER_ENTRY]}}]})]),
        BAD_GATEWAY,
    ),
    "has several choices in an event": (
        Reply([sse({"choices": [{"index": 0, "token_ids": [1]}, {"index": 1, "token_ids": [1]}]})]),
        BAD_GATEWAY,
    ),
    "has a choice that was not requested": (
        Reply([sse({"choices": [{"index": 1, "token_ids": [1]}]})]),
        BAD_GATEWAY,
    ),
    "has a negative choice": (Reply([sse({"choices": [{"index": -1, "token_ids": [1]}]})]), BAD_GATEWAY),
    "reports an error": (Reply([sse({"error": {"message": "quixotic", "code": 500}})]), BAD_GATEWAY),
    "reports an error without a message": (Reply([sse({"error": None})]), BAD_GATEWAY),
    "reports an error of the client": (
        Reply([sse({"error": {"message": "the prompt is too long", "code": 400}})]),
        (400, "BadRequestError"),
    ),
    "reports an error with a secret": (
        Reply([sse({"error": {"message": "no such token: secret-token", "code": 400}})]),
        (400, "BadRequestError"),
    ),
    "has an event that is too large": (Reply([b"data: ", *[b"x" * (1 << 20)] * 17]), BAD_GATEWAY),
    "has another encoding": (Reply([b"quixotic"], headers=[("content-encoding", "gzip")]), BAD_GATEWAY),
}


@pytest.mark.parametrize(("reply", "error"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_a_fault_before_the_first_event_is_an_error_response(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, reply: Reply, error: tuple[int, str]
) -> None:
    upstream.replies(reply)
    response = plain_relay.post(CHAT + RELAY, relay_chat())
    assert read_error(response) == error
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("stream", [True, False])
def test_an_unreachable_generate_server_is_an_error_response(relay: InProcessRelay, *, stream: bool) -> None:
    response = relay.post(CHAT + RELAY, {**relay_chat(stream=stream), "upstream": "gone"})
    assert read_error(response) == BAD_GATEWAY


# --- after the first byte -------------------------------------------------------------------------------------

ENDINGS: Final[dict[str, tuple[Sequence[Part], int]]] = {
    "is lost": ([break_off], 502),
    "stops": ([hang], 504),
    "ends without a finish reason": ([], 502),
    "is done without a finish reason": ([DONE], 502),
    "goes on with no JSON": ([b"data: quixotic\n\n"], 502),
    "goes on with no chunk": ([sse({"quixotic": 1})], 502),
    "goes on with ids of another vocabulary": ([sse(OTHER_VOCABULARY)], 502),
    "goes on beyond the length of the model": (
        [sse({"choices": [{"index": 0, "token_ids": [9707] * 40_960}]})],
        502,
    ),
    "goes on with another generation": ([sse({"request_id": "2", "choices": []})], 502),
    "reports an error": ([sse(ERROR), DONE], 502),
    "reports an error of the client": ([sse({"error": {"message": "no", "code": 429}})], 429),
}


@pytest.mark.parametrize(("rest", "status"), ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_later_fault_ends_the_stream_with_the_text_held_back_and_an_error(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, rest: Sequence[Part], status: int, path: str
) -> None:
    # The end of the text may become a stop string.
    begun = [sse(chunk) for chunk in chunks_of(qwen3().encode("one two ST"), finish_reason=None)]
    upstream.replies(Reply([*begun, *rest]))
    make = relay_chat if path == CHAT else relay_completion
    response = plain_relay.post(path + RELAY, make(stop="STOP"))
    assert response.status_code == 200
    *events, last = events_of(response.content)
    assert text_of(events) == "one two ST"
    assert finishes(events) == {0: []}
    assert last.keys() == {"error"}
    assert last["error"]["code"] == status
    assert last["error"].keys() == {"message", "type", "param", "code"}
    assert b"[DONE]" not in response.content
    assert not any(secret in response.text for secret in SECRETS)


def test_nothing_is_sent_for_a_choice_of_which_nothing_was_held_back(
    plain_relay: InProcessRelay, upstream: UpstreamTransport
) -> None:
    begun = chunks_of(qwen3().encode("one"), finish_reason=None)
    upstream.replies(Reply([*map(sse, begun), break_off]))
    events = events_of(plain_relay.post(CHAT + RELAY, relay_chat()).content)
    assert len(events) == len(begun) + 1
    assert "error" in events[-1]


def test_a_truncated_call_is_text(relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    ids = qwen3().encode('So: <tool_call>\n{"name": "get_weather"')
    upstream.replies(Reply([*map(sse, chunks_of(ids, finish_reason=None)), break_off]))
    *events, last = events_of(relay.post(CHAT + RELAY, relay_chat(tools=[])).content)
    assert "error" in last
    assert "tool_calls" not in events[-1]["choices"][0]["delta"]
    assert text_of(events).startswith("So:")


def test_a_stopped_choice_has_its_finish_reason_in_a_broken_stream(
    plain_relay: InProcessRelay, upstream: UpstreamTransport
) -> None:
    stopped = chunks_of(qwen3().encode("a STOP"), finish_reason=None)
    finished = chunks_of(qwen3().encode("b"), index=1)
    other = chunks_of(qwen3().encode("c"), index=2, finish_reason=None)
    upstream.replies(Reply([*map(sse, [*stopped, *finished, *other]), break_off]))
    *events, last = events_of(plain_relay.post(CHAT + RELAY, relay_chat(n=3, stop="STOP")).content)
    assert finishes(events) == {0: ["stop"], 1: ["stop"], 2: []}
    assert last["error"]["code"] == 502


def test_a_fault_while_the_stream_is_cut_is_logged(
    plain_relay: InProcessRelay,
    upstream: UpstreamTransport,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: object) -> None:
        raise ValueError

    monkeypatch.setattr(RelayedGeneration, "cut", fail)
    upstream.replies(Reply([*map(sse, chunks_of([9707], finish_reason=None)), break_off]))
    *_, last = events_of(plain_relay.post(CHAT + RELAY, relay_chat()).content)
    assert last["error"]["code"] == 502
    assert "unexpected ValueError" in caplog.text
    caplog.clear()


@pytest.mark.parametrize(
    "rest",
    [[break_off], [hang], [b"data: quixotic\n\n"], [sse(ERROR)], [sse(ERROR), DONE]],
    ids=["is lost", "stops", "no JSON", "an error", "an error and the end"],
)
def test_nothing_is_a_fault_after_all_choices_have_finished(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, rest: Sequence[Part]
) -> None:
    upstream.replies(Reply([*map(sse, chunks_of([*qwen3().encode("one"), END])), *rest]))
    *events, last = plain_relay.stream(CHAT + RELAY, relay_chat(stream_options={"include_usage": True}))
    assert text_of(events) == "one"
    assert last["usage"]["completion_tokens"] == len(qwen3().encode("one")) + 1


def test_the_relay_does_not_wait_long_for_usage(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate_streams, "GRACE_SECONDS", 0.01)
    upstream.replies(Reply([*map(sse, chunks_of([9707, END])), pause(60)]))
    *_, last = plain_relay.stream(CHAT + RELAY, relay_chat(stream_options={"include_usage": True}))
    assert last["usage"]["completion_tokens"] == 2
    assert upstream.requests[0].cancelled.is_set()


# --- several prompts ------------------------------------------------------------------------------------------


def test_prompts_are_generated_concurrently(plain_relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    """Each stream waits for the others to begin, so sequential generations would never end."""
    together = meet(3)

    def respond(received: ReceivedRequest) -> Reply:
        if received.path != GENERATE:
            return answer([generate_request(request_id=f"cmpl-{place}") for place in range(3)])
        first, *rest = map(sse, chunks_of(qwen3().encode("one two")))
        return Reply([first, together, *rest, DONE])

    upstream.respond = respond
    events = plain_relay.stream(COMPLETIONS, {"prompt": ["a", "b", "c"], "stream": True})
    assert [text_of(events, index) for index in range(3)] == ["one two"] * 3
    assert [event["choices"][0]["index"] for event in events[:3]] != [0, 0, 0]


def test_a_failed_prompt_cancels_the_others(plain_relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    ids = qwen3().encode("one two")

    def respond(received: ReceivedRequest) -> Reply:
        if received.path != GENERATE:
            return answer([generate_request(request_id=name) for name in ("good", "bad")])
        if received.body["request_id"] == "bad":
            return Reply([pause(0.05), sse(ERROR)])
        return Reply([*map(sse, chunks_of(ids, finish_reason=None)), pause(60)])

    upstream.respond = respond
    response = plain_relay.post(COMPLETIONS, {"prompt": ["a", "b"], "stream": True})
    *events, last = events_of(response.content)
    assert text_of(events) == "one two"
    assert last["error"]["code"] == 502
    (good,) = (
        received
        for received in upstream.requests
        if received.path == GENERATE and received.body["request_id"] == "good"
    )
    assert good.cancelled.is_set()
