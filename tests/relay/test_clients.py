"""Clients over HTTP: some disconnect, some read slowly, and one is the official OpenAI client."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.completion import Completion

from tests.support.generate_protocol import chunks_of, generate_request, response_of, usage
from tests.support.qwen3 import END, PROMPT, qwen3
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY
from tests.support.relay_requests import relay_chat
from tests.support.upstream_server import GENERATE, Reply, answer, hang, sse, stream
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.relay_server import RelayServer
    from tests.support.upstream_server import ReceivedRequest, UpstreamServer

    from .conftest import RelayFactory


# --- clients that disconnect ----------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("where", ["before the status", "after the status"])
def test_a_disconnect_before_the_first_byte_cancels_the_generation(
    relay: RelayServer, upstream: UpstreamServer, where: str, *, streamed: bool
) -> None:
    upstream.replies(Reply([hang], before=[hang] if where == "before the status" else []))
    with relay.connect(CHAT + RELAY, relay_chat(stream=streamed)):
        (received,) = upstream.wait_for(1)
    assert received.cancelled.wait(10)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_disconnect_cancels_the_rendering(
    relay: RelayServer, upstream: UpstreamServer, *, streamed: bool
) -> None:
    upstream.replies(Reply([hang]))
    with relay.connect(CHAT, {"messages": [], "stream": streamed}):
        (received,) = upstream.wait_for(1)
    assert received.cancelled.wait(10)
    assert len(upstream.requests) == 1


def test_a_disconnect_in_mid_stream_cancels_the_generation(
    plain_relay: RelayServer, upstream: UpstreamServer
) -> None:
    upstream.replies(Reply([*map(sse, chunks_of(qwen3().encode("one"), finish_reason=None)), hang]))
    content = b""
    with plain_relay.connect(CHAT + RELAY, relay_chat()) as connection:
        while b"one" not in content:
            content += connection.recv(4096)
    assert upstream.requests[0].cancelled.wait(10)


def test_a_disconnect_cancels_the_generations_of_all_prompts(
    plain_relay: RelayServer, upstream: UpstreamServer
) -> None:
    def respond(received: ReceivedRequest) -> Reply:
        return Reply([hang]) if received.path == GENERATE else answer([generate_request()] * 3)

    upstream.respond = respond
    with plain_relay.connect(COMPLETIONS, {"prompt": ["a", "b", "c"], "stream": True}):
        upstream.wait_for(4)
    assert all(received.cancelled.wait(10) for received in upstream.requests if received.path == GENERATE)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_stop_string_cancels_the_generation(
    plain_relay: RelayServer, upstream: UpstreamServer, *, streamed: bool
) -> None:
    upstream.replies(Reply([*map(sse, chunks_of(qwen3().encode("one STOP"), finish_reason=None)), hang]))
    response = plain_relay.post(CHAT + RELAY, relay_chat(stream=streamed, stop="STOP"))
    assert '"finish_reason":"stop"' in response.text
    assert upstream.requests[0].cancelled.wait(10)


def test_connections_to_the_generate_server_are_reused(relay: RelayServer, upstream: UpstreamServer) -> None:
    ids = [*qwen3().encode("one"), END]
    upstream.replies(stream([*chunks_of(ids), usage(9, len(ids))]))
    for _ in range(3):
        relay.stream(CHAT + RELAY, relay_chat())
    assert len({received.request.client for received in upstream.requests}) == 1


# --- clients that read slowly ---------------------------------------------------------------------------------

EVENTS: Final = 200
HELLO: Final = 9707
MOST_IN_SOCKETS: Final = 64 << 20
"""Bytes. The kernel lets buffers grow to tens of megabytes."""


def large_event() -> bytes:
    """An event of 200 tokens with candidates."""
    candidates = [{"token_id": HELLO + place, "logprob": -1.5, "rank": place} for place in range(5)]
    entry = {"token_id": HELLO, "logprob": -0.5, "rank": 1, "top_logprobs": candidates}
    choice = {"index": 0, "token_ids": [HELLO] * 200, "logprobs": {"content": [entry] * 200}}
    return sse({"choices": [choice]})


@pytest.fixture
def long_relay(make_relay: RelayFactory) -> RelayServer:
    """A relay that accepts long outputs."""
    return make_relay(max_model_len="10000000", tool_call_parser="none", reasoning_parser="none")


def test_the_relay_reads_no_more_than_the_client_does(
    long_relay: RelayServer, upstream: UpstreamServer
) -> None:
    """The generate server can send only what fits into the buffers of sockets."""
    upstream.replies(Reply(repeat(large_event())))
    with long_relay.connect(CHAT + RELAY, relay_chat(logprobs=True, top_logprobs=5)):
        (received,) = upstream.wait_for(1)
        assert 0 < _wait_for_stall(received) < MOST_IN_SOCKETS
    assert received.cancelled.wait(10)


def test_a_client_that_reads_late_gets_everything(long_relay: RelayServer, upstream: UpstreamServer) -> None:
    end = sse({"choices": [{"index": 0, "finish_reason": "stop"}]})
    upstream.replies(Reply([*[large_event()] * EVENTS, end, b"data: [DONE]\n\n"]))
    count, tail = 0, b""
    with long_relay.connect(CHAT + RELAY, relay_chat(logprobs=True, top_logprobs=5)) as connection:
        (received,) = upstream.wait_for(1)
        _wait_for_stall(received)
        while not tail.endswith(b"0\r\n\r\n"):
            content = tail + connection.recv(1 << 20)
            tail = content[-32:]
            count += content.count(b"data: {") - tail.count(b"data: {")
    assert count == EVENTS + 1
    assert b"data: [DONE]" in tail


def _wait_for_stall(received: ReceivedRequest) -> int:
    """Wait until the server can send no more, and return how many bytes it has sent."""
    before = -1

    def stands_still() -> bool:
        nonlocal before
        last, before = before, received.sent
        received.cancelled.wait(0.2)
        return received.sent == last

    wait_until(stands_still)
    return received.sent


# --- the OpenAI client ---------------------------------------------------------------------------------------

TOOL: Final[Any] = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
OUTPUT: Final = (
    "<think>\nTwo and two.\n</think>\n\nI add: "
    '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 2}}\n</tool_call>'
)


@pytest.fixture
def client(relay: RelayServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{relay.url}/v1", api_key="key", max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture
def generating(upstream: UpstreamServer) -> UpstreamServer:
    """An upstream that renders requests and generates `OUTPUT`."""
    ids = [*qwen3().encode(OUTPUT), END]

    def respond(received: ReceivedRequest) -> Reply:
        if received.path != GENERATE:
            request = generate_request()
            return answer(request if "chat" in received.path else [request])
        if received.body["stream"]:
            return stream([*chunks_of(ids), usage(len(PROMPT), len(ids))])
        return answer(response_of(ids))

    upstream.respond = respond
    return upstream


@pytest.mark.usefixtures("generating")
@pytest.mark.parametrize("rendered", [True, False])
def test_a_chat(client: openai.OpenAI, *, rendered: bool) -> None:
    messages: Any = [{"role": "user", "content": "2 + 2?"}]
    if rendered:
        completion = client.chat.completions.create(model="m", messages=messages, tools=[TOOL])
    else:
        body = relay_chat(stream=False, tools=[TOOL])
        completion = client.post("/chat/completions/derender/relay", body=body, cast_to=ChatCompletion)
    (choice,) = completion.choices
    assert choice.message.content == "I add:"
    assert choice.message.model_dump()["reasoning"] == "Two and two."
    calls: Any = choice.message.tool_calls
    (call,) = calls
    assert call.type == "function"
    assert (call.function.name, call.function.arguments) == ("add", '{"a": 2, "b": 2}')
    assert choice.finish_reason == "tool_calls"
    assert completion.id == "chatcmpl-1"
    assert completion.usage is not None
    assert completion.usage.prompt_tokens == len(PROMPT)
    assert completion.usage.completion_tokens == len(qwen3().encode(OUTPUT)) + 1


@pytest.mark.usefixtures("generating")
@pytest.mark.parametrize("rendered", [True, False])
def test_a_streamed_chat(client: openai.OpenAI, *, rendered: bool) -> None:
    messages: Any = [{"role": "user", "content": "2 + 2?"}]
    if rendered:
        chunks = client.chat.completions.create(
            model="m", messages=messages, tools=[TOOL], stream=True, stream_options={"include_usage": True}
        )
    else:
        chunks = client.post(
            "/chat/completions/derender/relay",
            body=relay_chat(tools=[TOOL], stream_options={"include_usage": True}),
            cast_to=ChatCompletionChunk,
            stream=True,
            stream_cls=openai.Stream[ChatCompletionChunk],
        )
    *read, last = list(chunks)
    deltas = [chunk.choices[0].delta for chunk in read]
    assert "".join(delta.content or "" for delta in deltas) == "I add:"
    assert "".join(delta.model_dump()["reasoning"] or "" for delta in deltas) == "Two and two."
    calls = [call.function for delta in deltas for call in delta.tool_calls or () if call.function]
    assert [call.name for call in calls if call.name] == ["add"]
    assert "".join(call.arguments or "" for call in calls) == '{"a": 2, "b": 2}'
    assert [chunk.choices[0].finish_reason for chunk in read if chunk.choices[0].finish_reason] == [
        "tool_calls"
    ]
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == len(qwen3().encode(OUTPUT)) + 1
    assert {chunk.id for chunk in [*read, last]} == {"chatcmpl-1"}


@pytest.mark.usefixtures("generating")
@pytest.mark.parametrize("rendered", [True, False])
def test_a_completion(client: openai.OpenAI, *, rendered: bool) -> None:
    body: Any = {"generate_request": generate_request(), "completion_request": {}}
    completion = (
        client.completions.create(model="m", prompt="2 + 2?")
        if rendered
        else client.post("/completions/derender/relay", body=body, cast_to=Completion)
    )
    assert [choice.text for choice in completion.choices] == [OUTPUT]
    assert completion.choices[0].finish_reason == "stop"


@pytest.mark.usefixtures("generating")
@pytest.mark.parametrize("rendered", [True, False])
def test_a_streamed_completion(client: openai.OpenAI, *, rendered: bool) -> None:
    body: Any = {"generate_request": generate_request(), "completion_request": {"stream": True}}
    chunks = (
        client.completions.create(model="m", prompt="2 + 2?", stream=True)
        if rendered
        else client.post(
            "/completions/derender/relay",
            body=body,
            cast_to=Completion,
            stream=True,
            stream_cls=openai.Stream[Completion],
        )
    )
    assert "".join(chunk.choices[0].text for chunk in chunks) == OUTPUT


def test_errors_are_those_of_the_openai_client(client: openai.OpenAI, upstream: UpstreamServer) -> None:
    upstream.replies(answer({"error": {"message": "slow down"}}, 429))
    with pytest.raises(openai.RateLimitError, match="slow down"):
        client.chat.completions.create(model="m", messages=[], stream=True)
    with pytest.raises(openai.NotFoundError, match="nope"):
        client.chat.completions.create(model="nope", messages=[])
    broken = Reply([*map(sse, chunks_of(qwen3().encode("one"), finish_reason=None))])
    upstream.respond = lambda received: broken if received.path == GENERATE else answer(generate_request())
    chunks = client.chat.completions.create(model="m", messages=[], stream=True)
    read = []
    with pytest.raises(openai.APIError, match="before all choices had finished"):
        read += [chunk.choices[0].delta.content for chunk in chunks]
