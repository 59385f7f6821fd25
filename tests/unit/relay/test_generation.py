"""Relayed generations: events of a generate server in, chunks of the client's stream out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.generate_protocol import chunks_of, generate_request, response_of, usage
from tests.support.qwen3 import END, PROMPT, qwen3
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY, events_of, finishes, text_of
from tests.support.relay_requests import relay_chat, relay_completion
from tests.support.streams import added_up, adds_something, whole
from tests.support.upstream_server import answer, stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.relay_in_process import InProcessRelay, UpstreamTransport

HELLO: Final = "Hello, wörld! 😀"
TOOLS: Final = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
CALL: Final = (
    "<think>\nThe user asks: “how warm?”\n</think>\n\nLet me see. "
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Malmö", "days": [1, 2]}}\n</tool_call>\n'
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "東京"}}\n</tool_call>'
)


def hello() -> list[int]:
    return [*qwen3().encode(HELLO), END]


# --- chunks ---------------------------------------------------------------------------------------------------


def test_each_event_becomes_a_chat_chunk(relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    upstream.replies(stream(chunks_of(hello())))
    events = relay.stream(CHAT + RELAY, relay_chat(model="alias"))
    assert text_of(events) == HELLO
    assert finishes(events) == {0: ["stop"]}
    assert len(events) == len(hello())
    for event in events:
        assert (event["object"], event["model"], event["usage"]) == ("chat.completion.chunk", "alias", None)
        assert event["created"] == events[0]["created"]
    roles = [event["choices"][0]["delta"]["role"] for event in events]
    assert roles == ["assistant", *[None] * (len(events) - 1)]


def test_each_event_becomes_a_completion_chunk(relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    upstream.replies(stream(chunks_of(hello(), size=3)))
    events = relay.stream(COMPLETIONS + RELAY, relay_completion())
    assert text_of(events) == HELLO
    assert finishes(events) == {0: ["stop"]}
    assert {(event["object"], event["model"]) for event in events} == {("text_completion", "m")}


HELD: Final = "<think>\n\n</think>\n\n" + CALL.partition("\n\n")[2]
"""Its markup, and the names of its calls, add nothing until more has come."""


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("continuous", [False, True])
def test_chunks_that_add_nothing_are_not_sent(
    relay: InProcessRelay, upstream: UpstreamTransport, path: str, *, continuous: bool
) -> None:
    ids = [*qwen3().encode("Hi 🎉 STOP?" if path == COMPLETIONS else HELD), END]
    upstream.replies(stream(chunks_of(ids)))
    options = {"include_usage": True, "continuous_usage_stats": continuous}
    make = relay_chat if path == CHAT else relay_completion
    *events, last = relay.stream(path + RELAY, make(tools=TOOLS, stop="STOP.", stream_options=options))
    assert 0 < len(events) < len(ids)
    assert all(adds_something(event["choices"][0]) for event in events)
    assert all((event["usage"] is not None) == continuous for event in events)
    assert last["usage"]["completion_tokens"] == len(ids)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("field", ["logprobs", "token_ids", "routed_experts", "weight_versions"])
def test_a_chunk_without_text_may_add_something(
    relay: InProcessRelay, upstream: UpstreamTransport, path: str, field: str
) -> None:
    chunks = chunks_of(qwen3().encode("Hi 🎉" if path == COMPLETIONS else HELD))
    for chunk in chunks:
        (choice,) = chunk["choices"]
        entry = {"token_id": choice["token_ids"][0], "logprob": -0.5, "rank": 1}
        choice |= {"logprobs": {"content": [entry]}} if field == "logprobs" else {field: choice["token_ids"]}
    upstream.replies(stream(chunks))
    make = relay_chat if path == CHAT else relay_completion
    events = relay.stream(path + RELAY, make(return_token_ids=field == "token_ids"))
    assert [bool(event["choices"][0][field]) for event in events] == [True] * len(chunks)


def test_metrics_are_sent_without_text(plain_relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    first, *others = chunks_of(qwen3().encode(" 🎉"))
    upstream.replies(stream([{**first, "metrics": {"seconds": 1}}, *others]))
    events = plain_relay.stream(COMPLETIONS + RELAY, relay_completion())
    assert [(event["choices"][0]["text"], event["metrics"]) for event in events] == [
        ("", {"seconds": 1}),
        (" 🎉", None),
    ]


def test_the_prompt_says_whether_reasoning_is_open(relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    request = generate_request(token_ids=[*PROMPT, *qwen3().encode("<think>\n")])
    upstream.replies(stream(chunks_of([*qwen3().encode("So it is.\n</think>\n\nYes."), END])))
    (choice,) = added_up(relay.stream(CHAT + RELAY, relay_chat(request))).values()
    assert (choice.reasoning, choice.content) == ("So it is.", "Yes.")


def test_choices_come_in_the_order_of_their_tokens(
    plain_relay: InProcessRelay, upstream: UpstreamTransport
) -> None:
    first = chunks_of(qwen3().encode("one two three"))
    second = chunks_of(qwen3().encode("four five six seven"), index=1)
    mixed = [chunk for pair in zip(first, second, strict=False) for chunk in pair]
    upstream.replies(stream([*mixed, *second[len(first) :]]))
    events = plain_relay.stream(CHAT + RELAY, relay_chat(n=2))
    assert (text_of(events, 0), text_of(events, 1)) == ("one two three", "four five six seven")
    assert [event["choices"][0]["index"] for event in events[:4]] == [0, 1, 0, 1]
    assert finishes(events) == {0: ["stop"], 1: ["stop"]}


@pytest.mark.parametrize("streamed", [True, False])
def test_the_answer_has_the_id_of_the_request(
    relay: InProcessRelay, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    ids = qwen3().encode(CALL)
    calls = []
    for name in ("one", "another"):
        chunks = chunks_of(ids, request_id=f"generate-tokens-{name}")
        upstream.replies(
            stream(chunks) if streamed else answer({**response_of(ids), "request_id": f"random-{name}"})
        )
        response = relay.post(CHAT + RELAY, relay_chat(stream=streamed, tools=TOOLS))
        answers = events_of(response.content)[:-1] if streamed else [response.json()]
        assert {answer["id"] for answer in answers} == {"chatcmpl-1"}
        messages = [choice.get("delta") or choice["message"] for each in answers for choice in each["choices"]]
        calls.append([call["id"] for each in messages for call in each.get("tool_calls", ()) if "id" in call])
    assert calls[0] == calls[1]
    assert len(calls[0]) == 2


def test_ids_of_calls_differ_by_prompt_and_are_the_same_whole_and_streamed(
    relay: InProcessRelay, upstream: UpstreamTransport
) -> None:
    ids = qwen3().encode(CALL)
    found: list[list[list[str]]] = []
    for prompt in (PROMPT, [*PROMPT, 1]):
        request = generate_request(token_ids=prompt)
        upstream.replies(answer(response_of(ids)), stream(chunks_of(ids)))
        complete = relay.post(CHAT + RELAY, relay_chat(request, stream=False, tools=TOOLS)).json()
        events = relay.stream(CHAT + RELAY, relay_chat(request, tools=TOOLS))
        found.append([[name for name, _, _ in said[0].calls] for said in (whole(complete), added_up(events))])
    assert [complete == streamed for complete, streamed in found] == [True, True]
    assert len({*found[0][0], *found[1][0]}) == 4


@pytest.mark.parametrize("given", [None, PROMPT])
@pytest.mark.parametrize("streamed", [True, False])
def test_token_ids_are_returned_if_asked_for(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, given: list[int] | None, *, streamed: bool
) -> None:
    ids = hello()
    chunks = chunks_of(ids, size=4)
    chunks[0]["prompt_token_ids"] = given
    upstream.replies(stream(chunks) if streamed else answer({**response_of(ids), "prompt_token_ids": given}))
    response = plain_relay.post(CHAT + RELAY, relay_chat(stream=streamed, return_token_ids=True))
    answers = events_of(response.content)[:-1] if streamed else [response.json()]
    assert answers[0]["prompt_token_ids"] == PROMPT
    assert all(each["prompt_token_ids"] is None for each in answers[1:])
    assert [token_id for each in answers for token_id in each["choices"][0]["token_ids"]] == ids


@pytest.mark.parametrize("streamed", [True, False])
def test_clients_do_not_see_where_caches_are(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    private = {"kv_transfer_params": {"remote_host": "10.0.0.7"}, "ec_transfer_params": {"a": "10.0.0.7"}}
    chunks = [{**chunk, **private} for chunk in chunks_of(hello())]
    upstream.replies(stream(chunks) if streamed else answer({**response_of(hello()), **private}))
    response = plain_relay.post(CHAT + RELAY, relay_chat(stream=streamed))
    assert response.status_code == 200
    assert "10.0.0.7" not in response.text


# --- usage ----------------------------------------------------------------------------------------------------


def _usage_variants() -> dict[str, list[dict[str, Any]]]:
    ids = hello()
    chunks = chunks_of(ids)
    last = {**chunks[-1], "usage": usage(9, len(ids))["usage"]}
    counting = [{**chunk, "usage": usage(9, count)["usage"]} for count, chunk in enumerate(chunks, 1)]
    return {
        "in a last chunk": [*chunks, usage(9, len(ids))],
        "with the finish reason": [*chunks[:-1], last],
        "in every chunk": [*counting, usage(9, len(ids))],
        "nowhere": chunks,
    }


@pytest.mark.parametrize("where", ["in a last chunk", "with the finish reason", "in every chunk", "nowhere"])
@pytest.mark.parametrize(
    "options",
    [None, {}, {"include_usage": False, "continuous_usage_stats": True}, {"include_usage": True}],
    ids=str,
)
def test_usage_comes_at_the_end_if_asked_for(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, where: str, options: dict[str, Any] | None
) -> None:
    upstream.replies(stream(_usage_variants()[where]))
    events = plain_relay.stream(CHAT + RELAY, relay_chat(stream_options=options))
    if options == {"include_usage": True}:
        last = events.pop()
        assert last["choices"] == []
        assert last["id"] == "chatcmpl-1"
        count = len(hello())
        expected = {"prompt_tokens": 9, "completion_tokens": count, "total_tokens": 9 + count}
        assert {name: last["usage"][name] for name in expected} == expected
    assert [event["usage"] for event in events] == [None] * len(hello())
    assert text_of(events) == HELLO


@pytest.mark.parametrize("where", ["in every chunk", "nowhere"])
def test_usage_is_in_every_chunk_if_asked_for(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, where: str
) -> None:
    upstream.replies(stream(_usage_variants()[where]))
    options = {"include_usage": True, "continuous_usage_stats": True}
    *events, last = plain_relay.stream(CHAT + RELAY, relay_chat(stream_options=options))
    assert upstream.requests[0].body["stream_options"] == options
    counts = [event["usage"]["completion_tokens"] for event in events]
    assert counts == list(range(1, len(hello()) + 1))
    assert {event["usage"]["prompt_tokens"] for event in events} == {9}
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], len(hello()))


def test_tokens_of_the_reasoning_are_in_all_usage(relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    ids = [*qwen3().encode("<think>\nLet me see.\n</think>\n\nHi"), END]
    reasoning = len(qwen3().encode("\nLet me see.\n"))
    options = {"include_usage": True, "continuous_usage_stats": True}
    upstream.replies(stream(chunks_of(ids)))
    events = relay.stream(CHAT + RELAY, relay_chat(stream_options=options, include_reasoning=False))
    counts = [event["usage"]["completion_tokens_details"]["reasoning_tokens"] for event in events]
    assert (counts[0], counts[-1]) == (0, reasoning)
    assert counts == sorted(counts)
    upstream.replies(answer(response_of(ids)))
    body = relay.post(CHAT + RELAY, relay_chat(stream=False)).json()
    assert body["usage"]["completion_tokens_details"] == {"reasoning_tokens": reasoning}


def test_usage_counts_at_least_what_came(plain_relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    upstream.replies(stream([*chunks_of(hello()), usage(9, 1)]))
    *_, last = plain_relay.stream(CHAT + RELAY, relay_chat(stream_options={"include_usage": True}))
    assert last["usage"]["completion_tokens"] == len(hello())


def test_details_of_usage_are_in_complete_answers(
    plain_relay: InProcessRelay, upstream: UpstreamTransport
) -> None:
    counted = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}}
    upstream.replies(answer({**response_of(hello()), "usage": counted}))
    for path in (CHAT, COMPLETIONS):
        body = plain_relay.post(path + RELAY, {"generate_request": generate_request()}).json()
        assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 8}
        assert body["usage"]["completion_tokens"] == len(hello())


def test_details_of_usage_are_passed_on(plain_relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    counted = usage(9, 12)
    counted["usage"]["prompt_tokens_details"] = {"cached_tokens": 8}
    counted["metrics"] = {"seconds": 1}
    upstream.replies(stream([*chunks_of(hello()), counted]))
    *_, last = plain_relay.stream(CHAT + RELAY, relay_chat(stream_options={"include_usage": True}))
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 8}
    assert last["metrics"] == {"seconds": 1}


# --- a stream and a complete answer ---------------------------------------------------------------------------

OUTPUTS: Final = {
    "text": HELLO,
    "reasoning": "<think>\nHm.\n</think>\n\nYes.",
    "truncated reasoning": "<think>\nHm. So",
    "calls": CALL,
    "a truncated call": CALL[:-30],
    "an invalid call": "<tool_call>\nnot json\n</tool_call> after",
}


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_a_chat_stream_adds_up_to_the_complete_answer(
    relay: InProcessRelay, upstream: UpstreamTransport, output: str, size: int
) -> None:
    _serve_with_logprobs(upstream, [*qwen3().encode(output), END], size)
    client: dict[str, Any] = {"tools": TOOLS, "logprobs": True, "top_logprobs": 1, "return_token_ids": True}
    complete = relay.post(CHAT + RELAY, relay_chat(**client, stream=False)).json()
    *events, last = relay.stream(CHAT + RELAY, relay_chat(**client, stream_options={"include_usage": True}))
    assert added_up(events) == whole(complete)
    assert last["usage"] == complete["usage"]
    assert (last["id"], last["model"]) == (complete["id"], complete["model"])


@pytest.mark.parametrize("size", [1, 3])
def test_a_completion_stream_adds_up_to_the_complete_answer(
    relay: InProcessRelay, upstream: UpstreamTransport, size: int
) -> None:
    _serve_with_logprobs(upstream, hello(), size)
    complete = relay.post(COMPLETIONS + RELAY, relay_completion(logprobs=1, stream=False)).json()
    added = added_up(relay.stream(COMPLETIONS + RELAY, relay_completion(logprobs=1)))
    assert added == whole(complete)
    assert added[0].content == HELLO


def _serve_with_logprobs(upstream: UpstreamTransport, ids: Sequence[int], size: int) -> None:
    generated, chunks = response_of(ids), chunks_of(ids, size=size)
    for part in (generated, *chunks):
        (choice,) = part["choices"]
        choice["logprobs"] = {"content": [_entry(token_id) for token_id in choice["token_ids"]]}
    upstream.respond = lambda received: stream(chunks) if received.body["stream"] else answer(generated)


def _entry(token_id: int) -> dict[str, Any]:
    sampled = {"token_id": token_id, "logprob": -token_id / 1e5, "rank": 1}
    return {**sampled, "top_logprobs": [sampled] * 2}
