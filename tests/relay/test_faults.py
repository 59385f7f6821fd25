"""What goes wrong, as relay/README.md says in its table: before the client has read anything, and after."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.generate_protocol import chunks_of, generate_request, response_of
from tests.support.qwen3 import END, PROMPT, qwen3
from tests.support.relay_server import CHAT, COMPLETIONS, RELAY, events_of, finishes, text_of
from tests.support.upstream_server import GENERATE, Reply, answer, break_off, hang, pause, sse, stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.relay_server import RelayServer
    from tests.support.upstream_server import Part, ReceivedRequest, UpstreamServer

    from .conftest import Serve

SECRETS: Final = ("http://", "127.0.0.1", "secret-token", "Traceback", "Bearer", "quixotic")
"""What nobody is told."""


def chat(**client: Any) -> dict[str, Any]:
    client = {"model": "m", "messages": [], "stream": True, **client}
    return {"generate_request": generate_request(), "chat_request": client}


@pytest.fixture
def quick(serve: Serve) -> RelayServer:
    """A relay that does not wait for long."""
    return serve(
        upstream_timeout="0.3",
        generation_timeout="0.3",
        upstream_connect_timeout="1",
        tool_call_parser="none",
        reasoning_parser="none",
    )


@pytest.fixture(autouse=True)
def _nothing_leaks(caplog: pytest.LogCaptureFixture) -> Any:
    with caplog.at_level(logging.DEBUG, "derender"), caplog.at_level(logging.DEBUG, "uvicorn"):
        yield
    for record in caplog.records:
        if record.name.startswith(("derender", "httpx", "httpcore", "uvicorn")):
            assert "unexpected" not in record.getMessage()
            assert not any(secret in record.getMessage() for secret in SECRETS)


def error_of(response: Any) -> tuple[int, str]:
    """Status and type; the message is there and holds no secret."""
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["code"] == response.status_code
    assert error["message"]
    assert not any(secret in response.text for secret in SECRETS)
    return response.status_code, error["type"]


ERROR: Final = {"error": {"message": "no more", "type": "X", "param": None, "code": 500}}
TRACE: Final = 'Traceback (most recent call last):\n  File "x.py", line 1'
GATEWAY: Final = (502, "BadGatewayError")
TIMEOUT: Final = (504, "GatewayTimeoutError")
OUT_OF_VOCABULARY: Final = {"choices": [{"index": 0, "token_ids": [151_936]}]}

STATUSES: Final[dict[str, tuple[Reply, tuple[int, str], str]]] = {
    "400": (
        answer({"error": {"message": "max_tokens is too large", "code": 400}}, 400),
        (400, "BadRequestError"),
        "max_tokens is too large",
    ),
    "413": (answer({"message": "too much"}, 413), (413, "RequestTooLargeError"), "too much"),
    "422": (
        answer({"detail": [{"loc": ["body"], "msg": "Field required", "input": "quixotic"}]}, 422),
        (422, "UnprocessableEntityError"),
        "Field required",
    ),
    "429": (
        answer({"detail": "slow down"}, 429, [("retry-after", "7")]),
        (429, "RateLimitError"),
        "slow down",
    ),
    "400 that says nothing": (answer([], 400), (400, "BadRequestError"), "gave no reason"),
    "400 that is no JSON": (
        Reply([b"<html>quixotic"], 400, "text/html"),
        (400, "BadRequestError"),
        "gave no reason",
    ),
    "400 with a trace": (answer({"message": TRACE}, 400), (400, "BadRequestError"), "gave no reason"),
    "400 with a secret": (
        answer({"message": "no such token: secret-token"}, 400),
        (400, "BadRequestError"),
        "gave no reason",
    ),
    "400 with a URL": (
        answer({"message": "can't load http://quixotic/x.png now"}, 400),
        (400, "BadRequestError"),
        "can't load (URL) now",
    ),
    "400 with the host": (
        answer({"message": "the engine at 127.0.0.1 is busy"}, 400),
        (400, "BadRequestError"),
        "gave no reason",
    ),
    "400 with a line of a trace": (
        answer({"message": "File /usr/lib/x.py line 3: no"}, 400),
        (400, "BadRequestError"),
        "gave no reason",
    ),
    "401": (answer({"error": {"message": "quixotic"}}, 401), GATEWAY, "status 401"),
    "404": (answer({"error": {"message": "quixotic"}}, 404), GATEWAY, "status 404"),
    "500": (answer({"error": {"message": TRACE}}, 500), GATEWAY, "status 500"),
    "503": (Reply([b"quixotic" * 20_000], 503, "text/plain"), GATEWAY, "status 503"),
    "a redirect": (answer({}, 307, [("location", "http://127.0.0.1:1/quixotic")]), GATEWAY, "status 307"),
    "202": (answer(response_of([1]), 202), GATEWAY, "status 202"),
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("reply", "error", "message"), STATUSES.values(), ids=STATUSES)
def test_a_status_that_is_no_success(
    relay: RelayServer,
    upstream: UpstreamServer,
    reply: Reply,
    error: tuple[int, str],
    message: str,
    *,
    streamed: bool,
) -> None:
    upstream.replies(reply)
    response = relay.post(CHAT + RELAY, chat(stream=streamed))
    assert error_of(response) == error
    assert message in response.json()["error"]["message"]
    assert response.headers.get("retry-after") == dict(reply.headers).get("retry-after")


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("reply", "error", "message"), STATUSES.values(), ids=STATUSES)
def test_a_render_service_that_refuses(
    relay: RelayServer,
    upstream: UpstreamServer,
    reply: Reply,
    error: tuple[int, str],
    message: str,
    *,
    streamed: bool,
) -> None:
    upstream.replies(reply)
    response = relay.post(CHAT, {"messages": [], "stream": streamed})
    assert error_of(response) == error
    assert message in response.json()["error"]["message"]
    assert len(upstream.requests) == 1


BEGINNINGS: Final[dict[str, tuple[Reply, tuple[int, str]]]] = {
    "is lost": (Reply([], before=[break_off]), GATEWAY),
    "is lost after the status": (Reply([break_off]), GATEWAY),
    "is silent": (Reply([], before=[hang]), TIMEOUT),
    "is silent after the status": (Reply([hang]), TIMEOUT),
    "is silent in an event": (Reply([b"data: {", hang]), TIMEOUT),
    "is empty": (Reply([]), GATEWAY),
    "ends at once": (stream([]), GATEWAY),
    "has no JSON": (Reply([b"data: quixotic\n\n"]), GATEWAY),
    "has no UTF-8": (Reply([b'data: {"choices": [], "x": "\xff"}\n\n']), GATEWAY),
    "has no object": (Reply([b"data: []\n\n"]), GATEWAY),
    "has no choices": (Reply([sse({"text": "quixotic"})]), GATEWAY),
    "has ids that are none": (Reply([sse({"choices": [{"index": 0, "token_ids": ["quixotic"]}]})]), GATEWAY),
    "has ids of another vocabulary": (Reply([sse(OUT_OF_VOCABULARY)]), GATEWAY),
    "has several choices in a chunk": (
        Reply([sse({"choices": [{"index": 0, "token_ids": [1]}, {"index": 1, "token_ids": [1]}]})]),
        GATEWAY,
    ),
    "has a choice that nobody asked for": (
        Reply([sse({"choices": [{"index": 1, "token_ids": [1]}]})]),
        GATEWAY,
    ),
    "has a choice below none": (Reply([sse({"choices": [{"index": -1, "token_ids": [1]}]})]), GATEWAY),
    "reports an error": (Reply([sse({"error": {"message": "quixotic", "code": 500}})]), GATEWAY),
    "reports an error without words": (Reply([sse({"error": None})]), GATEWAY),
    "reports an error of the client's": (
        Reply([sse({"error": {"message": "the prompt is too long", "code": 400}})]),
        (400, "BadRequestError"),
    ),
    "reports an error with a secret": (
        Reply([sse({"error": {"message": "no such token: secret-token", "code": 400}})]),
        (400, "BadRequestError"),
    ),
    "has an event that is too large": (Reply([b"data: ", *[b"x" * (1 << 20)] * 17]), GATEWAY),
    "is encoded otherwise": (Reply([b"x"], headers=[("content-encoding", "gzip")]), GATEWAY),
}


@pytest.mark.parametrize(("reply", "error"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_a_stream_that_begins_badly_is_an_error(
    quick: RelayServer, upstream: UpstreamServer, reply: Reply, error: tuple[int, str]
) -> None:
    upstream.replies(reply)
    response = quick.post(CHAT + RELAY, chat())
    assert error_of(response) == error
    assert response.headers["content-type"] == "application/json"


ANSWERS: Final[dict[str, tuple[Reply, tuple[int, str]]]] = {
    "is lost": (Reply([], before=[break_off]), GATEWAY),
    "is cut": (Reply([b'{"choices"', break_off]), GATEWAY),
    "is silent": (Reply([], before=[hang]), TIMEOUT),
    "is silent in the middle": (Reply([b'{"choices"', hang]), TIMEOUT),
    "is empty": (Reply([]), GATEWAY),
    "is no JSON": (Reply([b"quixotic"]), GATEWAY),
    "is of another form": (answer({"text": "quixotic"}), GATEWAY),
    "has ids of another vocabulary": (answer(response_of([151_936])), GATEWAY),
    "has no ids": (answer(response_of([])), GATEWAY),
    "has no choices": (answer({"choices": []}), GATEWAY),
    "has choices that nobody asked for": (answer(response_of([1], [2])), GATEWAY),
    "is too large": (Reply([b" " * (1 << 20)] * 9), GATEWAY),
}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize(("reply", "error"), ANSWERS.values(), ids=ANSWERS)
def test_a_bad_answer_is_an_error(
    quick: RelayServer, upstream: UpstreamServer, reply: Reply, error: tuple[int, str], path: str
) -> None:
    upstream.replies(reply)
    assert error_of(quick.post(path + RELAY, {"generate_request": generate_request()})) == error


@pytest.mark.parametrize("streamed", [True, False])
def test_an_upstream_that_is_not_there(quick: RelayServer, *, streamed: bool) -> None:
    assert error_of(quick.post(CHAT + RELAY, {**chat(stream=streamed), "upstream": "gone"})) == GATEWAY


RENDERED: Final[dict[str, tuple[Reply, tuple[int, str]]]] = {
    "is lost": (Reply([], before=[break_off]), GATEWAY),
    "is silent": (Reply([], before=[hang]), TIMEOUT),
    "is no JSON": (Reply([b"quixotic"]), GATEWAY),
    "is no generate request": (answer({"model": "quixotic"}), GATEWAY),
    "is no object": (answer("quixotic"), GATEWAY),
    "is nothing": (answer([]), GATEWAY),
    "is of another vocabulary": (answer(generate_request(token_ids=[151_936])), GATEWAY),
    "is several": (answer([generate_request()] * 20_000), (400, "BadRequestError")),
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("reply", "error"), RENDERED.values(), ids=RENDERED)
def test_a_bad_rendering_is_an_error(
    quick: RelayServer, upstream: UpstreamServer, reply: Reply, error: tuple[int, str], *, streamed: bool
) -> None:
    upstream.replies(reply)
    assert error_of(quick.post(COMPLETIONS, {"prompt": "x", "stream": streamed})) == error
    assert GENERATE not in [asked.path for asked in upstream.requests]


def test_a_chat_is_rendered_to_one_prompt(plain: RelayServer, upstream: UpstreamServer) -> None:
    upstream.replies(answer([generate_request()] * 2))
    for streamed in (True, False):
        assert error_of(plain.post(CHAT, {"messages": [], "stream": streamed})) == GATEWAY
    assert len(upstream.requests) == 2


# --- after the first byte -------------------------------------------------------------------------------------

BEGUN: Final = [sse(chunk) for chunk in chunks_of(qwen3().encode("one two ST"), finish_reason=None)]
"""A stream whose end is held back: it may become a stop string."""
ENDINGS: Final[dict[str, tuple[Sequence[Part], int]]] = {
    "breaks off": ([break_off], 502),
    "is silent": ([hang], 504),
    "ends without a reason": ([], 502),
    "is done without a reason": ([b"data: [DONE]\n\n"], 502),
    "goes on with no JSON": ([b"data: quixotic\n\n"], 502),
    "goes on with no chunk": ([sse({"quixotic": 1})], 502),
    "goes on with ids of another vocabulary": ([sse(OUT_OF_VOCABULARY)], 502),
    "goes on with another generation": ([sse({"request_id": "2", "choices": []})], 502),
    "reports an error": ([sse(ERROR), b"data: [DONE]\n\n"], 502),
    "reports an error of the client's": ([sse({"error": {"message": "no", "code": 429}})], 429),
}


@pytest.mark.parametrize(("rest", "status"), ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_stream_that_goes_wrong_ends_with_what_was_said_and_an_error(
    quick: RelayServer, upstream: UpstreamServer, rest: Sequence[Part], status: int, path: str
) -> None:
    upstream.replies(Reply([*BEGUN, *rest]))
    field = "chat_request" if path == CHAT else "completion_request"
    body = {"generate_request": generate_request(), field: {"stream": True, "stop": "STOP"}}
    response = quick.post(path + RELAY, body)
    assert response.status_code == 200
    *events, last = events_of(response.content)
    assert text_of(events) == "one two ST"
    assert finishes(events) == {0: []}
    assert last.keys() == {"error"}
    assert last["error"]["code"] == status
    assert last["error"].keys() == {"message", "type", "param", "code"}
    assert b"[DONE]" not in response.content
    assert not any(secret in response.text for secret in SECRETS)


def test_a_call_that_breaks_off_is_text_and_no_half_call(relay: RelayServer, upstream: UpstreamServer) -> None:
    text = 'So: <tool_call>\n{"name": "get_weather"'
    upstream.replies(Reply([*map(sse, chunks_of(qwen3().encode(text), finish_reason=None)), break_off]))
    *events, last = events_of(relay.post(CHAT + RELAY, chat(tools=[])).content)
    assert "error" in last
    assert "tool_calls" not in events[-1]["choices"][0]["delta"]
    assert text_of(events).startswith("So:")


def test_a_choice_that_had_stopped_has_its_reason_when_the_stream_breaks_off(
    plain: RelayServer, upstream: UpstreamServer
) -> None:
    stopped = chunks_of(qwen3().encode("a STOP"), finish_reason=None)
    other = chunks_of(qwen3().encode("b"), index=1, finish_reason=None)
    upstream.replies(Reply([*map(sse, [*stopped, *other]), break_off]))
    *events, last = events_of(plain.post(CHAT + RELAY, chat(n=2, stop="STOP")).content)
    assert finishes(events) == {0: ["stop"], 1: []}
    assert last["error"]["code"] == 502


@pytest.mark.parametrize(
    "rest",
    [[break_off], [hang], [b"data: quixotic\n\n"], [sse(ERROR)]],
    ids=["breaks off", "is silent", "goes on with no JSON", "reports an error"],
)
def test_what_goes_wrong_after_the_end_is_nobodys_concern(
    quick: RelayServer, upstream: UpstreamServer, rest: Sequence[Part]
) -> None:
    upstream.replies(Reply([*map(sse, chunks_of([*qwen3().encode("one"), END])), *rest]))
    *events, last = quick.stream(CHAT + RELAY, chat(stream_options={"include_usage": True}))
    assert text_of(events) == "one"
    assert last["usage"]["completion_tokens"] == len(qwen3().encode("one")) + 1


@pytest.mark.parametrize("streamed", [True, False])
def test_one_prompt_that_fails_ends_the_others(
    plain: RelayServer, upstream: UpstreamServer, *, streamed: bool
) -> None:
    ids = qwen3().encode("one two")

    def respond(asked: ReceivedRequest) -> Reply:
        if asked.path != GENERATE:
            return answer([generate_request(request_id=name) for name in ("good", "bad")])
        if asked.body["request_id"] == "bad":
            return Reply([pause(0.1), sse(ERROR)]) if streamed else Reply([pause(0.1)], 500)
        return Reply([*map(sse, chunks_of(ids, finish_reason=None)), hang]) if streamed else Reply([hang])

    upstream.respond = respond
    response = plain.post(COMPLETIONS, {"prompt": ["a", "b"], "stream": streamed})
    if streamed:
        *events, last = events_of(response.content)
        assert text_of(events) == "one two"
        assert last["error"]["code"] == 502
    else:
        assert error_of(response) == GATEWAY
    good = next(
        asked for asked in upstream.requests if asked.path == GENERATE and asked.body["request_id"] == "good"
    )
    assert good.cancelled.wait(10)


# --- slow, but alive ------------------------------------------------------------------------------------------


def test_a_slow_upstream_keeps_the_client_waiting_with_comments(serve: Serve, upstream: UpstreamServer) -> None:
    server = serve(keep_alive=0.05, tool_call_parser="none", reasoning_parser="none")
    chunks = [sse(chunk) for chunk in chunks_of(qwen3().encode("one two"))]
    upstream.replies(Reply([pause(0.2), chunks[0], pause(0.2), *chunks[1:]], before=[pause(0.2)]))
    content = server.post(CHAT + RELAY, chat()).content
    assert content.startswith(b": keep-alive\n\n")
    before, _, after = content.partition(b"data: ")
    assert before.count(b": keep-alive\n\n") >= 3
    assert after.count(b": keep-alive\n\n") >= 1
    *events, done = events_of(content)
    assert (text_of(events), done) == ("one two", "[DONE]")


def test_after_a_comment_an_error_is_an_event(serve: Serve, upstream: UpstreamServer) -> None:
    server = serve(keep_alive=0.05, tool_call_parser="none", reasoning_parser="none")
    for path, body in ((CHAT + RELAY, chat()), (CHAT, {"messages": [], "stream": True})):
        upstream.replies(replace(answer({}, 500), before=[pause(0.2)]))
        response = server.post(path, body)
        assert response.status_code == 200
        (last,) = events_of(response.content)
        assert last["error"]["type"] == "BadGatewayError"


def test_an_upstream_that_says_a_little_now_and_then_is_not_given_up(
    quick: RelayServer, upstream: UpstreamServer
) -> None:
    ids = qwen3().encode("one two")
    upstream.replies(
        Reply(
            [
                *(part for _ in range(5) for part in (pause(0.08), b": ping\n\n")),
                *map(sse, chunks_of(ids)),
                b"data: [DONE]\n\n",
            ]
        )
    )
    assert text_of(quick.stream(CHAT + RELAY, chat())) == "one two"


# --- the client's mistakes ------------------------------------------------------------------------------------

WRONG: Final[dict[str, tuple[str, Any, tuple[int, str], str]]] = {
    "no JSON": (CHAT + RELAY, b"{", (400, "Bad Request"), "body"),
    "no generate request": (CHAT + RELAY, {"chat_request": {}}, (400, "Bad Request"), "generate_request"),
    "no ids": (
        CHAT + RELAY,
        {"generate_request": {}, "chat_request": {}},
        (400, "Bad Request"),
        "generate_request.token_ids",
    ),
    "ids below none": (
        CHAT + RELAY,
        {"generate_request": {"token_ids": [-1]}, "chat_request": {}},
        (400, "Bad Request"),
        "generate_request.token_ids.0",
    ),
    "ids of another vocabulary": (
        CHAT + RELAY,
        {"generate_request": {"token_ids": [151_936]}, "chat_request": {}},
        (400, "BadRequestError"),
        "generate_request.token_ids",
    ),
    "a prompt that is too long": (
        CHAT + RELAY,
        {"generate_request": {"token_ids": [1] * 50_000}, "chat_request": {}},
        (400, "BadRequestError"),
        "generate_request.token_ids",
    ),
    "an integer of many bits": (
        CHAT + RELAY,
        b'{"generate_request": {"token_ids": [], "x": 123456789012345678901234567890}, "chat_request": {}}',
        (400, "BadRequestError"),
        "generate_request",
    ),
    "no client's request": (
        CHAT + RELAY,
        {"generate_request": generate_request()},
        (400, "BadRequestError"),
        "chat_request",
    ),
    "another model": (
        CHAT + RELAY,
        {**chat(), "model": "nope"},
        (404, "NotFoundError"),
        "model",
    ),
    "the client's other model": (CHAT + RELAY, chat(model="nope"), (404, "NotFoundError"), "model"),
    "another upstream": (CHAT + RELAY, {**chat(), "upstream": "nope"}, (404, "NotFoundError"), "upstream"),
    "a URL for an upstream": (
        CHAT + RELAY,
        {**chat(), "upstream": "https://example.com"},
        (404, "NotFoundError"),
        "upstream",
    ),
    "a tool that is not there": (
        CHAT + RELAY,
        chat(tool_choice={"type": "function", "function": {"name": "x"}}),
        (400, "BadRequestError"),
        "chat_request.tool_choice",
    ),
    "a long stop string": (
        CHAT + RELAY,
        chat(stop="x" * 257),
        (400, "BadRequestError"),
        "chat_request.stop",
    ),
    "many stop strings": (
        COMPLETIONS + RELAY,
        {"generate_request": generate_request(), "completion_request": {"stop": ["x"] * 65}},
        (400, "BadRequestError"),
        "completion_request.stop",
    ),
    "an echo": (
        COMPLETIONS + RELAY,
        {"generate_request": generate_request(), "completion_request": {"echo": True}},
        (400, "BadRequestError"),
        "completion_request.echo",
    ),
    "no choices": (CHAT + RELAY, chat(n=0), (400, "Bad Request"), "chat_request.n"),
    "many choices": (
        CHAT + RELAY,
        chat(n=20_000),
        (400, "BadRequestError"),
        "generate_request.sampling_params.n",
    ),
    "plain: no object": (CHAT, b"[]", (400, "Bad Request"), "body"),
    "plain: another model": (CHAT, {"model": "nope"}, (404, "NotFoundError"), "model"),
    "plain: a tool choice": (CHAT, {"tool_choice": "x"}, (400, "BadRequestError"), "body.tool_choice"),
    "plain: a long stop string": (
        COMPLETIONS,
        {"stop": "x" * 257, "stream": True},
        (400, "BadRequestError"),
        "body.stop",
    ),
    "plain: many choices": (CHAT, {"n": 20_000}, (400, "BadRequestError"), "n"),
    "plain: an echo": (COMPLETIONS, {"echo": True}, (400, "BadRequestError"), "body.echo"),
    "plain: a large body": (CHAT, b" " * (9 << 20), (413, "RequestTooLargeError"), "body"),
}


@pytest.mark.parametrize(("path", "body", "error", "param"), WRONG.values(), ids=WRONG)
def test_a_wrong_request_is_refused_before_anybody_is_asked(
    relay: RelayServer, upstream: UpstreamServer, path: str, body: Any, error: tuple[int, str], param: str
) -> None:
    response = relay.post(path, body)
    assert error_of(response) == error
    assert response.json()["error"]["param"].startswith(param)
    assert upstream.requests == []


def test_a_long_stop_string_is_no_fault_of_a_whole_answer(plain: RelayServer, upstream: UpstreamServer) -> None:
    upstream.replies(answer(response_of(PROMPT)))
    assert plain.post(CHAT + RELAY, chat(stop="x" * 257, stream=False)).status_code == 200


@pytest.mark.parametrize("given", ["0" * 10, "soon", "7" * 20_000, "\xe9", "-1"])
def test_only_what_may_be_one_is_passed_on_as_retry_after(
    relay: RelayServer, upstream: UpstreamServer, given: str
) -> None:
    upstream.replies(answer({"message": "slow down"}, 429, [("retry-after", given)]))
    response = relay.post(CHAT + RELAY, chat())
    assert (response.status_code, "retry-after" in response.headers) == (429, False)


@pytest.mark.parametrize("number", [0, -1, 2.0, "2", True, []])
def test_the_number_of_choices_is_one(relay: RelayServer, upstream: UpstreamServer, number: object) -> None:
    body = chat()
    body["generate_request"]["sampling_params"]["n"] = number
    response = relay.post(CHAT + RELAY, body)
    assert error_of(response) == (400, "BadRequestError")
    assert response.json()["error"]["param"] == "generate_request.sampling_params.n"
    assert upstream.requests == []


def test_a_generation_that_is_not_streamed_may_take_longer(serve: Serve, upstream: UpstreamServer) -> None:
    patient = serve(upstream_timeout="0.2", tool_call_parser="none", reasoning_parser="none")
    upstream.replies(replace(answer(response_of([9707, END])), before=[pause(0.6)]))
    assert patient.post(CHAT + RELAY, chat(stream=False)).status_code == 200
    upstream.replies(replace(stream(chunks_of([9707, END])), before=[pause(0.6)]))
    assert error_of(patient.post(CHAT + RELAY, chat())) == TIMEOUT
