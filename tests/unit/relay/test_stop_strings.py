"""Stop strings: the generate server does not get them. The relay ends the generation when one is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from derender.decoding.stop_strings import StopStrings
from tests.support.generate_protocol import chunks_of, generate_request, response_of, usage
from tests.support.qwen3 import END, PROMPT, qwen3
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY, events_of, finishes, text_of
from tests.support.relay_faults import BAD_GATEWAY, read_error
from tests.support.relay_requests import relay_chat, relay_completion
from tests.support.streams import added_up, whole
from tests.support.upstream_server import GENERATE, Reply, answer, break_off, hang, sse, stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.relay_in_process import InProcessRelay, UpstreamTransport
    from tests.support.streams import Added

    from .conftest import RelayFactory

TEXT: Final = "one two STOP three four"
TOOLS: Final = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
CALL: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Malmö"}}\n</tool_call>'
both_ways = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "complete"])
both_apis = pytest.mark.parametrize("path", [CHAT, COMPLETIONS])


def request(path: str, generate: dict[str, Any] | None = None, **client: Any) -> dict[str, Any]:
    """Return a request to a route of the relay's own."""
    return (relay_chat if path == CHAT else relay_completion)(generate, **client)


def with_logprobs(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the logprobs of the sampled tokens."""
    for chunk in chunks:
        for choice in chunk["choices"]:
            entries = [{"token_id": token_id, "logprob": -token_id / 1e5} for token_id in choice["token_ids"]]
            choice["logprobs"] = {"content": entries}
    return chunks


def tokens_until_stop(ids: Sequence[int], strings: Sequence[str], min_tokens: int = 0) -> int:
    """Count the ids until one completes a stop string."""
    pieces = {token_id: piece for piece, token_id in qwen3().ids.items()}
    texts = [b"".join(pieces[token_id] for token_id in ids[:count]).decode() for count in range(len(ids) + 1)]
    return next(
        count
        for count, text in enumerate(texts)
        for string in strings
        if string in text[max(len(texts[min(min_tokens, count)]) + 1 - len(string), 0) :]
    )


def goes_on(chunks: Sequence[object]) -> Reply:
    """Stream chunks, and nothing more until the client disconnects."""
    return Reply([*map(sse, chunks), hang])


def read_answer(response: Any, *, streamed: bool) -> tuple[dict[int, Added], dict[str, Any]]:
    """Read the choices and the usage of an answer."""
    assert response.status_code == 200, response.text
    if not streamed:
        return whole(response.json()), response.json()["usage"]
    *events, last, done = events_of(response.content)
    assert done == "[DONE]"
    return added_up(events), last["usage"]


# --- the generation ends --------------------------------------------------------------------------------------


@both_ways
@both_apis
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("size", [1, 2, 50])
def test_a_stop_string_ends_the_generation(
    plain_relay: InProcessRelay,
    upstream: UpstreamTransport,
    path: str,
    size: int,
    *,
    include: bool,
    streamed: bool,
) -> None:
    ids = qwen3().encode(TEXT)
    count = tokens_until_stop(ids, ["STOP"])
    sent = -(-count // size) * size
    upstream.replies(goes_on(with_logprobs(chunks_of(ids[:sent], size=size, finish_reason=None))))
    body = request(
        path,
        stream=streamed,
        stop=["STOP", "four"],
        include_stop_str_in_output=include,
        logprobs=path == CHAT or 0,
        return_token_ids=True,
        stream_options={"include_usage": True},
    )
    choices, counted = read_answer(plain_relay.post(path + RELAY, body), streamed=streamed)
    (received,) = upstream.requests
    assert received.body["stream"] is True
    assert "stop" not in received.body["sampling_params"]
    assert received.cancelled.is_set()
    assert choices[0].content == ("one two STOP" if include else "one two ")
    assert (choices[0].finish_reason, choices[0].stop_reason) == ("stop", "STOP")
    assert choices[0].token_ids == ids[:count]
    assert {len(values) for values in choices[0].logprobs.values()} == {count}
    assert (counted["prompt_tokens"], counted["completion_tokens"]) == (len(PROMPT), count)


OUTPUTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "one string": (TEXT, {"stop": ["STOP"]}),
    "a string over several tokens": (TEXT, {"stop": ["o STOP th"]}),
    "a string of one character": (TEXT, {"stop": ["o"], "include_stop_str_in_output": True}),
    "min_tokens, after which it is complete": (TEXT, {"stop": ["STOP"], "min_tokens": 2}),
    "min_tokens, within which it is complete": (TEXT, {"stop": ["STOP", "four"], "min_tokens": 3}),
    "reasoning": ("<think>\nHm. STOP", {"stop": ["STOP"]}),
    "a marker": ("<think>\nHm.\n</think>\n\nYes.", {"stop": ["</think>"]}),
    "after a call": (CALL + "STOP", {"stop": ["STOP"], "tools": TOOLS}),
    "in a call": (CALL, {"stop": ["get_weather"], "tools": TOOLS}),
}


@both_ways
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("text", "client"), OUTPUTS.values(), ids=OUTPUTS)
def test_the_answer_is_the_one_of_a_server_that_stops(
    relay: InProcessRelay,
    upstream: UpstreamTransport,
    text: str,
    client: dict[str, Any],
    size: int,
    *,
    streamed: bool,
) -> None:
    ids = [*qwen3().encode(text), *qwen3().encode(" and more, and more")]
    body = relay_chat(
        **client,
        stream=streamed,
        logprobs=True,
        return_token_ids=True,
        stream_options={"include_usage": True},
    )
    upstream.replies(goes_on(with_logprobs(chunks_of(ids, size=size, finish_reason=None))))
    stopped_here = read_answer(relay.post(CHAT + RELAY, body), streamed=streamed)
    count = tokens_until_stop(ids, client["stop"], client.get("min_tokens", 0))
    chunks = with_logprobs(chunks_of(ids[:count], size=size))
    found = stopped_here[0][0].stop_reason
    chunks[-1]["choices"][0]["stop_reason"] = found
    upstream.replies(stream([*chunks, usage(len(PROMPT), count)]))
    stopped_there = read_answer(relay.post(CHAT + RELAY, body), streamed=streamed)
    assert stopped_here == stopped_there
    assert found in client["stop"]
    assert stopped_here[0][0].token_ids == ids[:count]


@both_ways
@pytest.mark.parametrize("finish", [{"finish_reason": "length"}, {"finish_reason": "stop", "stop_reason": 5}])
def test_a_stop_string_counts_whatever_ended_the_generation(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, finish: dict[str, Any], *, streamed: bool
) -> None:
    chunks = chunks_of(qwen3().encode(TEXT), size=50)
    chunks[-1]["choices"][0] |= finish
    upstream.replies(stream(chunks))
    body = relay_chat(stream=streamed, stop="STOP", stream_options={"include_usage": True})
    choices, counted = read_answer(plain_relay.post(CHAT + RELAY, body), streamed=streamed)
    assert (choices[0].content, choices[0].finish_reason, choices[0].stop_reason) == (
        "one two ",
        "stop",
        "STOP",
    )
    assert counted["completion_tokens"] == 3


@both_ways
def test_the_generation_goes_on_until_all_choices_have_ended(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    stopped = chunks_of(qwen3().encode("a b STOP"), finish_reason=None)
    more = chunks_of(qwen3().encode(" c d STOP e"), finish_reason="length")
    other = chunks_of(qwen3().encode("one two"), index=1, finish_reason="length")
    upstream.replies(goes_on([*stopped, *more, *other]))
    body = relay_chat(n=2, stop="STOP", stream=streamed, stream_options={"include_usage": True})
    response = plain_relay.post(CHAT + RELAY, body)
    choices, counted = read_answer(response, streamed=streamed)
    assert upstream.requests[0].cancelled.is_set()
    assert (choices[0].content, choices[1].content) == ("a b ", "one two")
    assert (choices[0].finish_reason, choices[1].finish_reason) == ("stop", "length")
    assert counted["completion_tokens"] == len(stopped) + len(other)
    if streamed:
        # Tokens after the stop string don't become chunks, not even empty ones.
        *events, _, _ = events_of(response.content)
        assert len(events) == len(stopped) + len(other)


@pytest.mark.parametrize(("size", "counts"), [(1, [1, 2, 3, 3]), (2, [2, 3, 3]), (50, [3, 3])])
def test_usage_in_every_chunk_counts_up_to_the_stop_string(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, size: int, counts: list[int]
) -> None:
    chunks = chunks_of(qwen3().encode(TEXT), size=size, finish_reason=None)
    for number, chunk in enumerate(chunks, 1):
        chunk["usage"] = usage(len(PROMPT), number * size)["usage"]
    upstream.replies(goes_on(chunks))
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = plain_relay.stream(CHAT + RELAY, relay_chat(stop="STOP", stream_options=options))
    assert [event["usage"]["completion_tokens"] for event in events] == counts


@both_ways
def test_a_generation_without_a_stop_string_is_answered_as_it_ended(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    ids = qwen3().encode("one STO")
    counted = usage(len(PROMPT), len(ids))
    counted["usage"]["prompt_tokens_details"] = {"cached_tokens": 8}
    counted["metrics"] = {"seconds": 1}
    chunks = chunks_of(ids, finish_reason="length")
    chunks[-1]["choices"][0] |= {"weight_versions": ["7"], "routed_experts": "AAAA"}
    upstream.replies(stream([*chunks, counted]))
    body = relay_chat(stream=streamed, stop="STOP", stream_options={"include_usage": True})
    response = plain_relay.post(CHAT + RELAY, body)
    choices, told = read_answer(response, streamed=streamed)
    assert (choices[0].content, choices[0].finish_reason, choices[0].stop_reason) == ("one STO", "length", None)
    assert (told["completion_tokens"], told["prompt_tokens_details"]) == (len(ids), {"cached_tokens": 8})
    assert all(word in response.text for word in ('"seconds":1', '"weight_versions":["7"]', '"AAAA"'))


# --- what the generate server is asked ------------------------------------------------------------------------


@both_apis
@pytest.mark.parametrize("of_client", [{}, {"stop": ["four"]}], ids=str)
@pytest.mark.parametrize("streamed", [True, False, None], ids=["streamed", "complete", "no client's request"])
def test_stop_strings_of_the_generate_request_count(
    plain_relay: InProcessRelay,
    upstream: UpstreamTransport,
    of_client: dict[str, Any],
    path: str,
    *,
    streamed: bool | None,
) -> None:
    upstream.replies(goes_on(chunks_of(qwen3().encode("STOP " + TEXT), finish_reason=None)))
    params = {"stop": "STOP", "min_tokens": 2, "include_stop_str_in_output": True, "top_k": None}
    field = "chat_request" if path == CHAT else "completion_request"
    body: dict[str, Any] = {"generate_request": generate_request(sampling_params=params)}
    if streamed is not None:
        body[field] = {"stream": streamed, "stream_options": {"include_usage": True}, **of_client}
    choices, counted = read_answer(plain_relay.post(path + RELAY, body), streamed=streamed is True)
    assert (choices[0].content, choices[0].stop_reason) == ("STOP one two STOP", "STOP")
    assert counted["completion_tokens"] == 4
    expected = {"min_tokens": 2, "include_stop_str_in_output": True, "top_k": None, "output_kind": 1}
    assert upstream.requests[0].body["sampling_params"] == expected


@both_ways
def test_a_request_for_a_chat_with_parsers_needs_the_clients_request(
    relay: InProcessRelay, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    request = generate_request(sampling_params={"stop": "STOP"}, stream=streamed)
    response = relay.post(CHAT + RELAY, {"generate_request": request})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "chat_request")
    assert upstream.requests == []


@pytest.mark.parametrize("stop", [[""], [1], 1, {}])
def test_stop_strings_of_the_generate_request_are_checked(
    relay: InProcessRelay, upstream: UpstreamTransport, stop: object
) -> None:
    response = relay.post(CHAT + RELAY, relay_chat(generate_request(sampling_params={"stop": stop})))
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith("generate_request.sampling_params.stop")
    assert upstream.requests == []


@both_ways
def test_stop_strings_that_only_the_render_service_knows_are_left_to_the_generate_server(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    rendered = generate_request(sampling_params={"stop": ["STOP", "four"]})
    upstream.replies(answer(rendered))
    response = plain_relay.post(CHAT, {"messages": [], "stop": "STOP", "stream": streamed})
    assert upstream.requests[-1].body["sampling_params"]["stop"] == ["four"]
    assert (response.status_code, "stop strings are not supported" in response.text) == (400, True)


LONG: Final = "one two " + "x" * 300


@pytest.mark.parametrize(
    ("params", "stop"),
    [({"prompt_logprobs": 1}, "STOP"), ({}, ["STOP", LONG])],
    ids=["logprobs of the prompt", "a long string"],
)
@both_apis
def test_an_answer_that_can_not_come_as_a_stream_is_cut(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, params: dict[str, Any], stop: object, path: str
) -> None:
    """Streams have no logprobs of the prompt, and can't wait for a long stop string."""
    ids = qwen3().encode(TEXT)
    generated = response_of(ids, qwen3().encode("one"), finish_reason="length")
    generated["choices"] = with_logprobs([generated])[0]["choices"]
    generated["usage"] = {
        "prompt_tokens": 9,
        "completion_tokens": 99,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    upstream.replies(answer(generated))
    sampling_params = {**params, "n": 2}
    body = request(
        path,
        generate_request(sampling_params=sampling_params),
        stop=stop,
        stream=False,
        logprobs=path == CHAT or 0,
        return_token_ids=True,
    )
    choices, counted = read_answer(plain_relay.post(path + RELAY, body), streamed=False)
    assert upstream.requests[0].body["stream"] is False
    assert upstream.requests[0].body["sampling_params"] == sampling_params
    assert (choices[0].content, choices[0].finish_reason, choices[0].stop_reason) == (
        "one two ",
        "stop",
        "STOP",
    )
    assert (choices[1].content, choices[1].finish_reason) == ("one", "length")
    assert choices[0].token_ids == ids[:3]
    assert {len(values) for values in choices[0].logprobs.values()} == {3}
    assert (counted["completion_tokens"], counted["prompt_tokens_details"]) == (4, {"cached_tokens": 8})


def test_an_answer_without_stop_strings_comes_at_once(
    plain_relay: InProcessRelay, upstream: UpstreamTransport
) -> None:
    upstream.replies(answer(response_of([9707, END])))
    assert plain_relay.post(CHAT + RELAY, relay_chat(stream=False)).status_code == 200
    assert upstream.requests[0].body["stream"] is False


def test_the_output_mode_is_tokens(plain_relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    upstream.replies(stream(chunks_of([9707, END])))
    plain_relay.stream(CHAT + RELAY, relay_chat(generate_request(output_mode="text")))
    assert "output_mode" not in upstream.requests[0].body


# --- faults ---------------------------------------------------------------------------------------------------

FAULTS: Final[dict[str, tuple[Reply, tuple[int, str]]]] = {
    "is lost": (Reply([*map(sse, chunks_of([9707], finish_reason=None)), break_off]), BAD_GATEWAY),
    "ends early": (stream(chunks_of([9707], finish_reason=None)), BAD_GATEWAY),
    "goes on after its end": (stream([*chunks_of([9707]), *chunks_of([9707])]), BAD_GATEWAY),
    "has ids of another vocabulary": (stream(chunks_of([151_936])), BAD_GATEWAY),
    "is too large": (Reply([b": comment\n" * 100_000] * 10), BAD_GATEWAY),
    "reports an error": (Reply([sse({"error": {"message": "no", "code": 400}})]), (400, "BadRequestError")),
}


@pytest.mark.usefixtures("_clean_log")
@pytest.mark.parametrize(("reply", "error"), FAULTS.values(), ids=FAULTS)
def test_a_complete_answer_whose_stream_fails(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, reply: Reply, error: tuple[int, str]
) -> None:
    upstream.replies(reply)
    body = relay_chat(generate_request(sampling_params={"n": 2}), stop="STOP", stream=False)
    assert read_error(plain_relay.post(CHAT + RELAY, body)) == error


@pytest.mark.usefixtures("_clean_log")
def test_a_response_that_can_not_be_cut(plain_relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    upstream.replies(answer(response_of([151_936])))
    body = relay_chat(stop=LONG, stream=False)
    assert read_error(plain_relay.post(CHAT + RELAY, body)) == BAD_GATEWAY


def test_prompts_stop_on_their_own(plain_relay: InProcessRelay, upstream: UpstreamTransport) -> None:
    def respond(received: Any) -> Reply:
        if received.path != GENERATE:
            return answer([generate_request(request_id=name) for name in ("a", "b")])
        text = TEXT if received.body["request_id"] == "a" else "one"
        return stream(chunks_of([*qwen3().encode(text), END]))

    upstream.respond = respond
    body = {"prompt": ["a", "b"], "stop": "STOP"}
    complete = plain_relay.post(COMPLETIONS, body).json()
    assert [choice["text"] for choice in complete["choices"]] == ["one two ", "one"]
    assert complete["usage"]["completion_tokens"] == 5
    events = plain_relay.stream(COMPLETIONS, {**body, "stream": True})
    assert [text_of(events, index) for index in (0, 1)] == ["one two ", "one"]
    assert finishes(events) == {0: ["stop"], 1: ["stop"]}


# --- growth ---------------------------------------------------------------------------------------------------


@both_ways
def test_the_work_grows_with_the_output_only(
    make_relay: RelayFactory, upstream: UpstreamTransport, monkeypatch: pytest.MonkeyPatch, *, streamed: bool
) -> None:
    """Each token's text is searched once, together with what may be the beginning of a stop string."""
    relay = make_relay(tool_call_parser="none", reasoning_parser="none")
    searched, search = 0, StopStrings.look

    def count(strings: StopStrings, text: str, exempt: int) -> Any:
        nonlocal searched
        searched += len(text)
        return search(strings, text, exempt)

    monkeypatch.setattr(StopStrings, "look", count)
    counts = []
    for tokens in (200, 400):
        upstream.replies(stream(chunks_of(qwen3().encode("la " * tokens), finish_reason="length")))
        body = relay_chat(stop=["la la x", "y" * 256], stream=streamed)
        searched = 0
        assert relay.post(CHAT + RELAY, body).status_code == 200
        counts.append(searched)
    assert counts[1] < 2.1 * counts[0]
