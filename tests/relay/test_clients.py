"""Clients that go away, read slowly, or are the official one."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.completion import Completion

from tests.support.generate_protocol import chunks_of, generate_request, response_of, usage
from tests.support.qwen3 import END, PROMPT, qwen3
from tests.support.relay_server import CHAT, COMPLETIONS, RELAY
from tests.support.upstream_server import GENERATE, Reply, answer, hang, sse, stream
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.relay_server import RelayServer
    from tests.support.upstream_server import ReceivedRequest, UpstreamServer

    from .conftest import Serve


def chat(*, streamed: bool = True, **client: Any) -> dict[str, Any]:
    return {
        "generate_request": generate_request(),
        "chat_request": {"model": "m", "messages": [], "stream": streamed, **client},
    }


# --- clients that go away -------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("where", ["before the status", "after the status"])
def test_a_client_that_goes_before_the_first_byte(
    relay: RelayServer, upstream: UpstreamServer, where: str, *, streamed: bool
) -> None:
    upstream.replies(Reply([hang], before=[hang] if where == "before the status" else []))
    with relay.connect(CHAT + RELAY, chat(streamed=streamed)):
        (asked,) = upstream.wait_for(1)
    assert asked.cancelled.wait(10)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_client_that_goes_while_its_request_is_rendered(
    relay: RelayServer, upstream: UpstreamServer, *, streamed: bool
) -> None:
    upstream.replies(Reply([hang]))
    with relay.connect(CHAT, {"messages": [], "stream": streamed}):
        (asked,) = upstream.wait_for(1)
    assert asked.cancelled.wait(10)
    assert len(upstream.requests) == 1


def test_a_client_that_goes_in_mid_stream(plain: RelayServer, upstream: UpstreamServer) -> None:
    upstream.replies(Reply([*map(sse, chunks_of(qwen3().encode("one"), finish_reason=None)), hang]))
    content = b""
    with plain.connect(CHAT + RELAY, chat()) as connection:
        while b"one" not in content:
            content += connection.recv(4096)
    assert upstream.requests[0].cancelled.wait(10)


def test_all_prompts_of_a_client_that_goes(plain: RelayServer, upstream: UpstreamServer) -> None:
    def respond(asked: ReceivedRequest) -> Reply:
        return Reply([hang]) if asked.path == GENERATE else answer([generate_request()] * 3)

    upstream.respond = respond
    with plain.connect(COMPLETIONS, {"prompt": ["a", "b", "c"], "stream": True}):
        upstream.wait_for(4)
    assert all(asked.cancelled.wait(10) for asked in upstream.requests if asked.path == GENERATE)


# --- clients that read slowly ---------------------------------------------------------------------------------

EVENTS: Final = 200
HELLO: Final = 9707
MOST_IN_SOCKETS: Final = 64 << 20
"""Bytes: the kernel lets buffers grow to tens of megabytes."""


def large_event() -> bytes:
    """200 tokens, with candidates."""
    candidates = [{"token_id": HELLO + place, "logprob": -1.5, "rank": place} for place in range(5)]
    entry = {"token_id": HELLO, "logprob": -0.5, "rank": 1, "top_logprobs": candidates}
    choice = {"index": 0, "token_ids": [HELLO] * 200, "logprobs": {"content": [entry] * 200}}
    return sse({"choices": [choice]})


@pytest.fixture
def roomy(serve: Serve) -> RelayServer:
    """A relay for long outputs."""
    return serve(max_model_len="10000000", tool_call_parser="none", reasoning_parser="none")


def test_no_more_is_read_than_the_client_reads(roomy: RelayServer, upstream: UpstreamServer) -> None:
    """What the client does not read, the upstream can't send: no more of it than sockets hold."""
    upstream.replies(Reply(repeat(large_event())))
    with roomy.connect(CHAT + RELAY, chat(logprobs=True, top_logprobs=5)):
        (asked,) = upstream.wait_for(1)
        assert 0 < _stalled(asked) < MOST_IN_SOCKETS
    assert asked.cancelled.wait(10)


def test_a_client_that_reads_late_reads_all(roomy: RelayServer, upstream: UpstreamServer) -> None:
    end = sse({"choices": [{"index": 0, "finish_reason": "stop"}]})
    upstream.replies(Reply([*[large_event()] * EVENTS, end, b"data: [DONE]\n\n"]))
    count, tail = 0, b""
    with roomy.connect(CHAT + RELAY, chat(logprobs=True, top_logprobs=5)) as connection:
        (asked,) = upstream.wait_for(1)
        _stalled(asked)
        while not tail.endswith(b"0\r\n\r\n"):
            content = tail + connection.recv(1 << 20)
            tail = content[-32:]
            count += content.count(b"data: {") - tail.count(b"data: {")
    assert count == EVENTS + 1
    assert b"data: [DONE]" in tail


def _stalled(asked: ReceivedRequest) -> int:
    """How many bytes were sent when no more can be."""
    before = -1

    def stands_still() -> bool:
        nonlocal before
        last, before = before, asked.sent
        asked.cancelled.wait(0.2)
        return asked.sent == last

    wait_until(stands_still)
    return asked.sent


# --- the official client --------------------------------------------------------------------------------------

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
    """An upstream that renders, and generates `OUTPUT`."""
    ids = [*qwen3().encode(OUTPUT), END]

    def respond(asked: ReceivedRequest) -> Reply:
        if asked.path != GENERATE:
            request = generate_request()
            return answer(request if "chat" in asked.path else [request])
        if asked.body["stream"]:
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
        body = chat(streamed=False, tools=[TOOL])
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
def test_a_chat_that_is_streamed(client: openai.OpenAI, *, rendered: bool) -> None:
    messages: Any = [{"role": "user", "content": "2 + 2?"}]
    if rendered:
        chunks = client.chat.completions.create(
            model="m", messages=messages, tools=[TOOL], stream=True, stream_options={"include_usage": True}
        )
    else:
        chunks = client.post(
            "/chat/completions/derender/relay",
            body=chat(tools=[TOOL], stream_options={"include_usage": True}),
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
def test_a_completion_that_is_streamed(client: openai.OpenAI, *, rendered: bool) -> None:
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


def test_errors_are_those_of_the_client(client: openai.OpenAI, upstream: UpstreamServer) -> None:
    upstream.replies(answer({"error": {"message": "slow down"}}, 429))
    with pytest.raises(openai.RateLimitError, match="slow down"):
        client.chat.completions.create(model="m", messages=[], stream=True)
    with pytest.raises(openai.NotFoundError, match="nope"):
        client.chat.completions.create(model="nope", messages=[])
    broken = Reply([*map(sse, chunks_of(qwen3().encode("one"), finish_reason=None))])
    upstream.respond = lambda asked: broken if asked.path == GENERATE else answer(generate_request())
    chunks = client.chat.completions.create(model="m", messages=[], stream=True)
    read = []
    with pytest.raises(openai.APIError, match="before all choices had finished"):
        read += [chunk.choices[0].delta.content for chunk in chunks]
