"""Streams through the relay: what the generate server is asked, and what the client reads."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.generate_protocol import chunks_of, generate_request, response_of, usage
from tests.support.qwen3 import END, PROMPT, qwen3
from tests.support.relay_server import CHAT, COMPLETIONS, RELAY, events_of, finishes, text_of
from tests.support.streams import Added, added_up
from tests.support.upstream_server import (
    GENERATE,
    RENDER_CHAT,
    RENDER_COMPLETIONS,
    Reply,
    answer,
    hang,
    meet,
    stream,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.relay_server import RelayServer
    from tests.support.upstream_server import ReceivedRequest, UpstreamServer

HELLO: Final = "Hello, wörld! 😀"
TOOLS: Final = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
CALL: Final = (
    "<think>\nThe user asks: “how warm?”\n</think>\n\nLet me see. "
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Malmö", "days": [1, 2]}}\n</tool_call>\n'
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "東京"}}\n</tool_call>'
)


def hello() -> list[int]:
    return [*qwen3().encode(HELLO), END]


def chat(request: dict[str, Any] | None = None, **client: Any) -> dict[str, Any]:
    """A request to relay a chat."""
    client = {"model": "m", "messages": [], "stream": True, **client}
    return {"generate_request": request or generate_request(), "chat_request": client}


def completion(request: dict[str, Any] | None = None, **client: Any) -> dict[str, Any]:
    """A request to relay a completion."""
    client = {"model": "m", "prompt": "Hi", "stream": True, **client}
    return {"generate_request": request or generate_request(), "completion_request": client}


# --- what is asked --------------------------------------------------------------------------------------------


def test_a_generate_request_is_passed_on_as_it_came(relay: RelayServer, upstream: UpstreamServer) -> None:
    upstream.replies(stream(chunks_of(hello())))
    request = generate_request(
        sampling_params={"max_tokens": 7, "temperature": 1.0, "extra": {"a": [None, 1e-7, 2**63]}, "n": 1},
        stream=False,
        stream_options=None,
        features={"of": ["a newer", "server"]},
        cache_salt=None,
        copy=1,
        model_config="",
    )
    relay.stream(CHAT + RELAY, chat(request))
    (asked,) = upstream.requests
    assert asked.path == GENERATE
    assert asked.body == {
        **request,
        "sampling_params": {**request["sampling_params"], "output_kind": 1},
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": False},
    }
    assert asked.headers["authorization"] == "Bearer secret-token"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["accept"] == "text/event-stream"


@pytest.mark.parametrize(("given", "sent"), [({}, {}), ({"output_kind": 1}, {"output_kind": 2})])
def test_what_is_asked_for_a_whole_answer(
    relay: RelayServer, upstream: UpstreamServer, given: dict[str, Any], sent: dict[str, Any]
) -> None:
    upstream.replies(answer(response_of(hello())))
    request = generate_request(
        sampling_params=given, stream=True, stream_options={"include_usage": True}, more=[1]
    )
    assert relay.post(CHAT + RELAY, chat(request, stream=False)).status_code == 200
    (asked,) = upstream.requests
    assert asked.body == {**request, "sampling_params": sent, "stream": False, "stream_options": None}


@pytest.mark.parametrize("streamed", [True, False])
def test_a_request_without_an_id_gets_one(
    relay: RelayServer, upstream: UpstreamServer, *, streamed: bool
) -> None:
    upstream.replies(stream(chunks_of(hello(), request_id=None)) if streamed else answer(response_of(hello())))
    request = generate_request()
    del request["request_id"]
    response = relay.post(CHAT + RELAY, chat(request, stream=streamed))
    answers = events_of(response.content)[:-1] if streamed else [response.json()]
    sent = upstream.requests[0].body["request_id"]
    assert len(sent) == 32
    assert {answer["id"] for answer in answers} == {sent}


@pytest.mark.parametrize("streamed", [True, False])
def test_the_answer_has_the_id_that_was_asked_for(
    relay: RelayServer, upstream: UpstreamServer, *, streamed: bool
) -> None:
    ids = qwen3().encode(CALL)
    calls = []
    for name in ("one", "another"):
        chunks = chunks_of(ids, request_id=f"generate-tokens-{name}")
        upstream.replies(
            stream(chunks) if streamed else answer({**response_of(ids), "request_id": f"random-{name}"})
        )
        response = relay.post(CHAT + RELAY, chat(stream=streamed, tools=TOOLS))
        answers = events_of(response.content)[:-1] if streamed else [response.json()]
        assert {answer["id"] for answer in answers} == {"chatcmpl-1"}
        said = [choice.get("delta") or choice["message"] for each in answers for choice in each["choices"]]
        calls.append([call["id"] for each in said for call in each.get("tool_calls", ()) if "id" in call])
    assert calls[0] == calls[1]
    assert len(calls[0]) == 2


@pytest.mark.parametrize(
    ("name", "path"), [(None, GENERATE), ("gpu", GENERATE), ("other", f"/other{GENERATE}")]
)
def test_a_client_names_an_upstream(
    relay: RelayServer, upstream: UpstreamServer, name: str | None, path: str
) -> None:
    upstream.replies(stream(chunks_of(hello())))
    relay.stream(CHAT + RELAY, {**chat(), "upstream": name})
    assert [asked.path for asked in upstream.requests] == [path]
    assert ("authorization" in upstream.requests[0].headers) is (name != "other")


def test_connections_are_used_again(relay: RelayServer, upstream: UpstreamServer) -> None:
    ids = hello()
    upstream.replies(stream([*chunks_of(ids), usage(9, len(ids))]))
    for _ in range(3):
        relay.stream(CHAT + RELAY, chat())
    assert len({received.request.client for received in upstream.requests}) == 1


# --- what is read ---------------------------------------------------------------------------------------------


def test_chat(relay: RelayServer, upstream: UpstreamServer) -> None:
    upstream.replies(stream(chunks_of(hello())))
    response = relay.post(CHAT + RELAY, chat(model="alias"), {"accept-encoding": "gzip"})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    *events, done = events_of(response.content)
    assert done == "[DONE]"
    assert text_of(events) == HELLO
    assert finishes(events) == {0: ["stop"]}
    assert len(events) == len(hello())
    for event in events:
        assert (event["object"], event["model"], event["usage"]) == ("chat.completion.chunk", "alias", None)
        assert event["created"] == events[0]["created"]
    assert [event["choices"][0]["delta"]["role"] for event in events] == [
        "assistant",
        *[None] * (len(events) - 1),
    ]


def test_completion(relay: RelayServer, upstream: UpstreamServer) -> None:
    upstream.replies(stream(chunks_of(hello(), size=3)))
    events = relay.stream(COMPLETIONS + RELAY, completion())
    assert text_of(events) == HELLO
    assert finishes(events) == {0: ["stop"]}
    assert {(event["object"], event["model"]) for event in events} == {("text_completion", "m")}


def test_a_long_stream_is_not_compressed(relay: RelayServer, upstream: UpstreamServer) -> None:
    upstream.replies(stream(chunks_of(qwen3().encode("word " * 300))))
    response = relay.post(CHAT + RELAY, chat(), {"accept-encoding": "gzip"})
    assert "content-encoding" not in response.headers
    assert len(response.content) > 50_000


def test_the_prompt_says_whether_reasoning_is_open(relay: RelayServer, upstream: UpstreamServer) -> None:
    ids = [*qwen3().encode("So it is.\n</think>\n\nYes."), END]
    request = generate_request(token_ids=[*PROMPT, *qwen3().encode("<think>\n")])
    upstream.replies(stream(chunks_of(ids)))
    (said,) = added_up(relay.stream(CHAT + RELAY, chat(request))).values()
    assert (said.reasoning, said.content) == ("So it is.", "Yes.")


def test_choices_come_as_they_are_generated(plain: RelayServer, upstream: UpstreamServer) -> None:
    first, second = qwen3().encode("one two three"), qwen3().encode("four five six seven")
    chunks = [
        chunk for pair in zip(chunks_of(first), chunks_of(second, index=1), strict=False) for chunk in pair
    ]
    chunks += chunks_of(second, index=1)[len(first) :]
    upstream.replies(stream(chunks))
    events = plain.stream(CHAT + RELAY, chat(n=2))
    assert (text_of(events, 0), text_of(events, 1)) == ("one two three", "four five six seven")
    assert [event["choices"][0]["index"] for event in events[:4]] == [0, 1, 0, 1]
    assert finishes(events) == {0: ["stop"], 1: ["stop"]}


def test_the_generate_request_says_how_many_choices_there_are(
    plain: RelayServer, upstream: UpstreamServer
) -> None:
    chunks = [*chunks_of(qwen3().encode("one")), *chunks_of(qwen3().encode("two"), index=1)]
    upstream.replies(stream(chunks))
    events = plain.stream(CHAT + RELAY, chat(generate_request(sampling_params={"n": 2})))
    assert finishes(events) == {0: ["stop"], 1: ["stop"]}


@pytest.mark.parametrize("given", [None, PROMPT])
@pytest.mark.parametrize("streamed", [True, False])
def test_ids_are_returned_if_asked_for(
    plain: RelayServer, upstream: UpstreamServer, given: list[int] | None, *, streamed: bool
) -> None:
    ids = hello()
    chunks = chunks_of(ids, size=4)
    chunks[0]["prompt_token_ids"] = given
    upstream.replies(stream(chunks) if streamed else answer({**response_of(ids), "prompt_token_ids": given}))
    response = plain.post(CHAT + RELAY, chat(stream=streamed, return_token_ids=True))
    answers = events_of(response.content)[:-1] if streamed else [response.json()]
    assert answers[0]["prompt_token_ids"] == PROMPT
    assert all(each["prompt_token_ids"] is None for each in answers[1:])
    returned = [token_id for each in answers for token_id in each["choices"][0]["token_ids"]]
    assert returned == ids


# --- usage ----------------------------------------------------------------------------------------------------


def _usage_variants() -> dict[str, list[dict[str, Any]]]:
    ids = hello()
    chunks = chunks_of(ids)
    last = {**chunks[-1], "usage": usage(9, len(ids))["usage"]}
    counting = [{**chunk, "usage": usage(9, count)["usage"]} for count, chunk in enumerate(chunks, 1)]
    return {
        "in a last chunk": [*chunks, usage(9, len(ids))],
        "with the end of the choice": [*chunks[:-1], last],
        "in every chunk": [*counting, usage(9, len(ids))],
        "nowhere": chunks,
    }


@pytest.mark.parametrize("kind", ["in a last chunk", "with the end of the choice", "in every chunk", "nowhere"])
@pytest.mark.parametrize(
    "options",
    [None, {}, {"include_usage": False, "continuous_usage_stats": True}, {"include_usage": True}],
    ids=str,
)
def test_usage_comes_at_the_end_if_asked_for(
    plain: RelayServer, upstream: UpstreamServer, kind: str, options: dict[str, Any] | None
) -> None:
    upstream.replies(stream(_usage_variants()[kind]))
    events = plain.stream(CHAT + RELAY, chat(stream_options=options))
    if options == {"include_usage": True}:
        last = events.pop()
        assert last["choices"] == []
        assert last["id"] == "chatcmpl-1"
        count = len(hello())
        wanted = {"prompt_tokens": 9, "completion_tokens": count, "total_tokens": 9 + count}
        assert {name: last["usage"][name] for name in wanted} == wanted
    assert [event["usage"] for event in events] == [None] * len(hello())
    assert text_of(events) == HELLO


@pytest.mark.parametrize("kind", ["in every chunk", "nowhere"])
def test_usage_is_in_every_chunk_if_asked_for(plain: RelayServer, upstream: UpstreamServer, kind: str) -> None:
    upstream.replies(stream(_usage_variants()[kind]))
    options = {"include_usage": True, "continuous_usage_stats": True}
    *events, last = plain.stream(CHAT + RELAY, chat(stream_options=options))
    assert upstream.requests[0].body["stream_options"] == options
    counts = [event["usage"]["completion_tokens"] for event in events]
    assert counts == list(range(1, len(hello()) + 1))
    assert {event["usage"]["prompt_tokens"] for event in events} == {9}
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], len(hello()))


def test_details_of_usage_are_passed_on(plain: RelayServer, upstream: UpstreamServer) -> None:
    counted = usage(9, 12)
    counted["usage"]["prompt_tokens_details"] = {"cached_tokens": 8}
    counted["metrics"] = {"seconds": 1}
    upstream.replies(stream([*chunks_of(hello()), counted]))
    *_, last = plain.stream(CHAT + RELAY, chat(stream_options={"include_usage": True}))
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 8}
    assert last["metrics"] == {"seconds": 1}


# --- stop strings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("size", [1, 2, 50])
def test_a_stop_string_ends_the_generation(
    plain: RelayServer, upstream: UpstreamServer, size: int, *, include: bool
) -> None:
    ids = qwen3().encode("one two STOP three four")
    before = next(count for count in range(0, len(ids) + size, size) if "STOP" in _decoded(ids[:count]))
    reply = stream(chunks_of(ids[:before], size=size, finish_reason=None), done=False)
    upstream.replies(_hanging(reply))
    body = chat(
        stop=["STOP", "four"], include_stop_str_in_output=include, stream_options={"include_usage": True}
    )
    *events, last = plain.stream(CHAT + RELAY, body)
    assert upstream.requests[0].cancelled.wait(10)
    assert text_of(events) == ("one two STOP" if include else "one two ")
    assert finishes(events) == {0: ["stop"]}
    assert events[-1]["choices"][0]["stop_reason"] == "STOP"
    assert last["usage"]["completion_tokens"] == min(before, len(ids))
    assert last["usage"]["prompt_tokens"] == len(PROMPT)


@pytest.mark.parametrize(
    "ended",
    [{"finish_reason": "length"}, {"finish_reason": "abort"}, {"finish_reason": "stop", "stop_reason": 5}],
)
@pytest.mark.parametrize("kind", ["chat", "completion"])
def test_a_whole_answer_ends_at_a_stop_string_too_whatever_ended_it(
    plain: RelayServer, upstream: UpstreamServer, kind: str, ended: dict[str, Any]
) -> None:
    """An engine without a tokenizer does not see it."""
    generated = response_of(qwen3().encode("one STOP two"))
    generated["choices"][0] |= ended
    upstream.replies(answer(generated))
    path, body = (CHAT, chat) if kind == "chat" else (COMPLETIONS, completion)
    (choice,) = plain.post(path + RELAY, body(stream=False, stop=["STOP"])).json()["choices"]
    said = choice["message"]["content"] if kind == "chat" else choice["text"]
    assert (said, choice["finish_reason"], choice["stop_reason"]) == ("one ", "stop", "STOP")


@pytest.mark.parametrize("streamed", [True, False])
def test_what_servers_tell_each_other_is_for_no_client(
    plain: RelayServer, upstream: UpstreamServer, *, streamed: bool
) -> None:
    private = {"kv_transfer_params": {"remote_host": "10.0.0.7"}, "ec_transfer_params": {"a": "10.0.0.7"}}
    ids = [*qwen3().encode("Hi"), END]
    chunks = [{**chunk, **private} for chunk in chunks_of(ids)]
    upstream.replies(stream(chunks) if streamed else answer({**response_of(ids), **private}))
    response = plain.post(CHAT + RELAY, chat(stream=streamed))
    assert response.status_code == 200
    assert "10.0.0.7" not in response.text


def _decoded(ids: Sequence[int]) -> str:
    pieces = {token_id: piece for piece, token_id in qwen3().ids.items()}
    return b"".join(pieces[token_id] for token_id in ids).decode(errors="replace")


def _hanging(reply: Reply) -> Reply:
    return replace(reply, parts=[*reply.parts, hang])


def test_the_generation_ends_when_all_choices_have(plain: RelayServer, upstream: UpstreamServer) -> None:
    stopped = chunks_of(qwen3().encode("a b STOP"), finish_reason=None)
    more = chunks_of(qwen3().encode(" c d e"), finish_reason=None)
    other = chunks_of(qwen3().encode("one two"), index=1, finish_reason="length")
    upstream.replies(_hanging(stream([*stopped, *more, *other], done=False)))
    events = plain.stream(CHAT + RELAY, chat(n=2, stop="STOP"))
    assert upstream.requests[0].cancelled.wait(10)
    assert (text_of(events, 0), text_of(events, 1)) == ("a b ", "one two")
    assert finishes(events) == {0: ["stop"], 1: ["length"]}
    # What is generated after the stop string is not even an empty chunk.
    assert sum(event["choices"][0]["index"] == 0 for event in events) == len(stopped) + 1


def test_a_stop_string_in_a_chat_with_calls(relay: RelayServer, upstream: UpstreamServer) -> None:
    ids = qwen3().encode(CALL + "STOP and more")
    upstream.replies(stream(chunks_of(ids, finish_reason=None), done=False))
    (said,) = added_up(relay.stream(CHAT + RELAY, chat(stop="STOP", tools=TOOLS))).values()
    assert [name for _, name, _ in said.calls] == ["get_weather", "get_weather"]
    assert said.finish_reason == "tool_calls"


def test_text_that_only_begins_a_stop_string_is_shown_at_the_end(
    plain: RelayServer, upstream: UpstreamServer
) -> None:
    upstream.replies(stream(chunks_of(qwen3().encode("one STO"), finish_reason="length")))
    events = plain.stream(CHAT + RELAY, chat(stop="STOP"))
    assert text_of(events) == "one STO"
    assert finishes(events) == {0: ["length"]}


# --- a whole answer and a stream ------------------------------------------------------------------------------

OUTPUTS: Final = {
    "text": HELLO,
    "reasoning": "<think>\nHm.\n</think>\n\nYes.",
    "reasoning that is cut": "<think>\nHm. So",
    "calls": CALL,
    "a call that is cut": CALL[:-30],
    "a call that is none": "<tool_call>\nnot json\n</tool_call> after",
}


@pytest.mark.parametrize("streamed_by", [1, 2, 7, 1000])
@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_a_stream_adds_up_to_the_whole_answer(
    relay: RelayServer, upstream: UpstreamServer, output: str, streamed_by: int
) -> None:
    ids = [*qwen3().encode(output), END]
    client: dict[str, Any] = {"tools": TOOLS, "logprobs": True, "top_logprobs": 1, "return_token_ids": True}
    generated = response_of(ids)
    generated["choices"][0]["logprobs"] = _logprobs(ids)
    chunks = chunks_of(ids, size=streamed_by)
    for chunk in chunks:
        chunk["choices"][0]["logprobs"] = _logprobs(chunk["choices"][0]["token_ids"])
    upstream.respond = lambda asked: stream(chunks) if asked.body["stream"] else answer(generated)
    whole = relay.post(CHAT + RELAY, chat(**client, stream=False)).json()
    *events, last = relay.stream(CHAT + RELAY, chat(**client, stream_options={"include_usage": True}))
    (added,) = added_up(events).values()
    (choice,) = whole["choices"]
    message = choice["message"]
    assert added == Added(
        content=message["content"] or "",
        reasoning=message["reasoning"] or "",
        calls=[
            (call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls", ())
        ],
        logprobs=choice["logprobs"],
        token_ids=choice["token_ids"],
        finish_reason=choice["finish_reason"],
        stop_reason=choice["stop_reason"],
    )
    assert last["usage"] == whole["usage"]
    assert (last["id"], last["model"]) == (whole["id"], whole["model"])


def _logprobs(ids: Sequence[int]) -> dict[str, Any]:
    return {
        "content": [
            {
                "token_id": token_id,
                "logprob": -token_id / 1e5,
                "rank": 1,
                "top_logprobs": [{"token_id": token_id, "logprob": -token_id / 1e5, "rank": 1}] * 2,
            }
            for token_id in ids
        ]
    }


@pytest.mark.parametrize("streamed_by", [1, 3])
def test_a_streamed_completion_adds_up_to_the_whole_one(
    relay: RelayServer, upstream: UpstreamServer, streamed_by: int
) -> None:
    ids = hello()
    generated = response_of(ids)
    generated["choices"][0]["logprobs"] = _logprobs(ids)
    chunks = chunks_of(ids, size=streamed_by)
    for chunk in chunks:
        chunk["choices"][0]["logprobs"] = _logprobs(chunk["choices"][0]["token_ids"])
    upstream.respond = lambda asked: stream(chunks) if asked.body["stream"] else answer(generated)
    whole = relay.post(COMPLETIONS + RELAY, completion(logprobs=1, stream=False)).json()
    (added,) = added_up(relay.stream(COMPLETIONS + RELAY, completion(logprobs=1))).values()
    (choice,) = whole["choices"]
    assert added.content == choice["text"] == HELLO
    assert added.logprobs == choice["logprobs"]
    assert (added.finish_reason, added.stop_reason) == (choice["finish_reason"], choice["stop_reason"])


# --- rendered -------------------------------------------------------------------------------------------------


def rendering(asked: ReceivedRequest, prompts: Sequence[str], *, n: int = 1) -> Reply:
    """Renders each prompt, and generates what it is, in capitals."""
    if asked.path in (RENDER_CHAT, RENDER_COMPLETIONS):
        requests = [
            generate_request(
                request_id=f"cmpl-{place}",
                token_ids=qwen3().encode(prompt),
                sampling_params={"n": n, "output_kind": 2},
            )
            for place, prompt in enumerate(prompts)
        ]
        return answer(requests[0] if asked.path == RENDER_CHAT else requests)
    prompt = _decoded(asked.body["token_ids"])
    outputs = [qwen3().encode(f"{prompt.upper()} {index}") for index in range(n)]
    if not asked.body["stream"]:
        return answer(response_of(*outputs))
    chunks = [chunk for index, output in enumerate(outputs) for chunk in chunks_of(output, index=index)]
    return stream([*chunks, usage(1, 1)])


@pytest.mark.parametrize("streamed", [True, False])
def test_a_clients_request_is_rendered_as_it_came(
    plain: RelayServer, upstream: UpstreamServer, *, streamed: bool
) -> None:
    upstream.respond = lambda asked: rendering(asked, ["hello"])
    body = b' {"stream": %b, "messages": [{"role": "user", "content": "\\u0041"}], "seed": 1.50}' % (
        json.dumps(streamed).encode()
    )
    response = plain.post(CHAT, body)
    assert response.status_code == 200
    render, generate = upstream.requests
    assert (render.path, render.content) == (RENDER_CHAT, body)
    assert render.headers["x-key"] == "secret-token"
    assert "authorization" not in render.headers
    assert (generate.path, generate.body["stream"]) == (GENERATE, streamed)
    assert generate.body["sampling_params"]["output_kind"] == (1 if streamed else 2)
    said = (
        text_of(events_of(response.content)[:-1])
        if streamed
        else response.json()["choices"][0]["message"]["content"]
    )
    assert said == "HELLO 0"


@pytest.mark.parametrize("streamed", [True, False])
def test_the_prompts_of_a_completion(plain: RelayServer, upstream: UpstreamServer, *, streamed: bool) -> None:
    prompts = ["one", "two", "three"]
    upstream.respond = lambda asked: rendering(asked, prompts, n=2)
    body = {"prompt": prompts, "n": 2, "stream": streamed, "stream_options": {"include_usage": True}}
    if streamed:
        *events, last = plain.stream(COMPLETIONS, body)
        texts = {index: text_of(events, index) for index in range(6)}
        ids = {event["id"] for event in [*events, last]}
        assert last["choices"] == []
    else:
        last = plain.post(COMPLETIONS, body).json()
        texts = {choice["index"]: choice["text"] for choice in last["choices"]}
        ids = {last["id"]}
    assert texts == {
        place * 2 + index: f"{prompt.upper()} {index}"
        for place, prompt in enumerate(prompts)
        for index in range(2)
    }
    assert ids == {"cmpl-0"}
    generated = sum(len(qwen3().encode(text)) for text in texts.values())
    assert last["usage"]["prompt_tokens"] == sum(len(qwen3().encode(prompt)) for prompt in prompts)
    assert last["usage"]["completion_tokens"] == generated


def test_prompts_are_generated_at_once(plain: RelayServer, upstream: UpstreamServer) -> None:
    """Each stream waits for the others to have begun, so one after the other would never end."""
    prompts = ["one", "two", "three"]
    gate = meet(len(prompts))

    def respond(asked: ReceivedRequest) -> Reply:
        reply = rendering(asked, prompts)
        if asked.path != GENERATE:
            return reply
        first, *rest = reply.parts
        return Reply([first, gate, *rest])

    upstream.respond = respond
    events = plain.stream(COMPLETIONS, {"prompt": prompts, "stream": True})
    assert [text_of(events, index) for index in range(3)] == ["ONE 0", "TWO 0", "THREE 0"]
    assert [event["choices"][0]["index"] for event in events[:3]] != [0, 0, 0]
