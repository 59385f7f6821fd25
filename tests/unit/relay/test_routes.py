"""The relay's routes: which models and requests they accept, and what they refuse without an upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.generate_protocol import chunks_of, generate_request, response_of
from tests.support.qwen3 import END, PROMPT
from tests.support.relay_client import CHAT, COMPLETIONS, RELAY
from tests.support.relay_faults import BAD_GATEWAY, TIMEOUT, read_error
from tests.support.relay_requests import relay_chat, relay_completion
from tests.support.upstream_server import GENERATE, Reply, answer, break_off, hang, stream

if TYPE_CHECKING:
    from tests.support.relay_in_process import InProcessRelay, UpstreamTransport

    from .conftest import RelayFactory

pytestmark = pytest.mark.usefixtures("_clean_log")

# --- refused requests -----------------------------------------------------------------------------------------

INVALID: Final = (400, "Bad Request")
BAD_REQUEST: Final = (400, "BadRequestError")
NOT_FOUND: Final = (404, "NotFoundError")

REFUSED: Final[dict[str, tuple[str, Any, tuple[int, str], str]]] = {
    "no JSON": (CHAT + RELAY, b"{", INVALID, "body"),
    "no generate request": (CHAT + RELAY, {"chat_request": {}}, INVALID, "generate_request"),
    "no ids": (
        CHAT + RELAY,
        {"generate_request": {}, "chat_request": {}},
        INVALID,
        "generate_request.token_ids",
    ),
    "negative ids": (
        CHAT + RELAY,
        {"generate_request": {"token_ids": [-1]}, "chat_request": {}},
        INVALID,
        "generate_request.token_ids.0",
    ),
    "ids of another vocabulary": (
        CHAT + RELAY,
        {"generate_request": {"token_ids": [151_936]}, "chat_request": {}},
        BAD_REQUEST,
        "generate_request.token_ids",
    ),
    "a prompt that is too long": (
        CHAT + RELAY,
        {"generate_request": {"token_ids": [1] * 50_000}, "chat_request": {}},
        BAD_REQUEST,
        "generate_request.token_ids",
    ),
    "an integer of many bits": (
        CHAT + RELAY,
        b'{"generate_request": {"token_ids": [], "x": 123456789012345678901234567890}, "chat_request": {}}',
        BAD_REQUEST,
        "generate_request",
    ),
    "no chat request": (
        CHAT + RELAY,
        {"generate_request": generate_request()},
        BAD_REQUEST,
        "chat_request",
    ),
    "an unknown model": (CHAT + RELAY, {**relay_chat(), "model": "nope"}, NOT_FOUND, "model"),
    "an unknown model of the client": (CHAT + RELAY, relay_chat(model="nope"), NOT_FOUND, "model"),
    "an unknown upstream": (CHAT + RELAY, {**relay_chat(), "upstream": "nope"}, NOT_FOUND, "upstream"),
    "a URL for an upstream": (
        CHAT + RELAY,
        {**relay_chat(), "upstream": "https://example.com"},
        NOT_FOUND,
        "upstream",
    ),
    "a tool that is not offered": (
        CHAT + RELAY,
        relay_chat(tool_choice={"type": "function", "function": {"name": "x"}}),
        BAD_REQUEST,
        "chat_request.tool_choice",
    ),
    "a long stop string": (CHAT + RELAY, relay_chat(stop="x" * 257), BAD_REQUEST, "chat_request.stop"),
    "many stop strings": (
        COMPLETIONS + RELAY,
        relay_completion(stop=["x"] * 65, stream=False),
        BAD_REQUEST,
        "completion_request.stop",
    ),
    "a streamed echo with logprobs": (
        COMPLETIONS + RELAY,
        relay_completion(echo=True, logprobs=0),
        BAD_REQUEST,
        "completion_request.echo",
    ),
    "no choices": (CHAT + RELAY, relay_chat(n=0), INVALID, "chat_request.n"),
    "many choices": (CHAT + RELAY, relay_chat(n=20_000), BAD_REQUEST, "generate_request.sampling_params.n"),
    "OpenAI: no object": (CHAT, b"[]", INVALID, "body"),
    "OpenAI: an unknown model": (CHAT, {"model": "nope"}, NOT_FOUND, "model"),
    "OpenAI: an invalid tool choice": (CHAT, {"tool_choice": "x"}, BAD_REQUEST, "body.tool_choice"),
    "OpenAI: a long stop string": (
        COMPLETIONS,
        {"stop": "x" * 257, "stream": True},
        BAD_REQUEST,
        "body.stop",
    ),
    "OpenAI: many choices": (CHAT, {"n": 20_000}, BAD_REQUEST, "n"),
    "OpenAI: a streamed echo with logprobs": (
        COMPLETIONS,
        {"echo": True, "logprobs": 1, "stream": True},
        BAD_REQUEST,
        "body.echo",
    ),
    "OpenAI: a prompt with an id of another vocabulary": (
        COMPLETIONS,
        {"prompt": [0, 151_936]},
        BAD_REQUEST,
        "body.prompt.1",
    ),
    "OpenAI: the second of two prompts has an id of another vocabulary": (
        COMPLETIONS,
        {"prompt": [[0], [0, 1, 1 << 70]], "stream": True},
        BAD_REQUEST,
        "body.prompt.1.2",
    ),
    "OpenAI: a prompt of too many ids": (COMPLETIONS, {"prompt": [[1] * 50_000]}, BAD_REQUEST, "body.prompt.0"),
    "OpenAI: a large body": (CHAT, b" " * (9 << 20), (413, "RequestTooLargeError"), "body"),
}


@pytest.mark.parametrize(("path", "body", "error", "param"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_request_reaches_no_upstream(
    relay: InProcessRelay, upstream: UpstreamTransport, path: str, body: Any, error: tuple[int, str], param: str
) -> None:
    response = relay.post(path, body)
    assert read_error(response) == error
    assert response.json()["error"]["param"].startswith(param)
    assert upstream.requests == []


def test_a_complete_answer_may_have_long_stop_strings(
    plain_relay: InProcessRelay, upstream: UpstreamTransport
) -> None:
    upstream.replies(answer(response_of(PROMPT)))
    body = relay_chat(stop="x" * 257, stream=False)
    assert plain_relay.post(CHAT + RELAY, body).status_code == 200


@pytest.mark.parametrize(
    "prompt", ["x", ["x", "y"], [1, 151_935], [[1], [2, 3]], [], [[]], [None, {}], [-1], [True, "x"], {"a": 1}]
)
def test_any_other_prompt_is_left_to_the_render_service(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, prompt: Any
) -> None:
    upstream.replies(answer({"error": {"message": "no", "param": "prompt"}}, 400))
    response = plain_relay.post(COMPLETIONS, {"prompt": prompt})
    assert response.json()["error"] == {
        "message": "no",
        "type": "BadRequestError",
        "param": "prompt",
        "code": 400,
    }


# --- rendering ------------------------------------------------------------------------------------------------

RENDERED: Final[dict[str, tuple[Reply, tuple[int, str]]]] = {
    "is lost": (Reply([], before=[break_off]), BAD_GATEWAY),
    "does not come": (Reply([], before=[hang]), TIMEOUT),
    "is not JSON": (Reply([b"quixotic"]), BAD_GATEWAY),
    "is not a generate request": (answer({"model": "quixotic"}), BAD_GATEWAY),
    "is not an object": (answer("quixotic"), BAD_GATEWAY),
    "is an empty list": (answer([]), BAD_GATEWAY),
    "is of another vocabulary": (answer(generate_request(token_ids=[151_936])), BAD_GATEWAY),
    "has too many prompts": (answer([generate_request()] * 9), BAD_REQUEST),
}


@pytest.fixture
def small_relay(make_relay: RelayFactory) -> InProcessRelay:
    """A relay of eight choices per answer at most."""
    return make_relay(max_sequences="8")


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("reply", "error"), RENDERED.values(), ids=RENDERED)
def test_a_rendering_that_cannot_be_relayed(
    small_relay: InProcessRelay,
    upstream: UpstreamTransport,
    reply: Reply,
    error: tuple[int, str],
    *,
    streamed: bool,
) -> None:
    upstream.replies(reply)
    assert read_error(small_relay.post(COMPLETIONS, {"prompt": "x", "stream": streamed})) == error
    assert GENERATE not in [received.path for received in upstream.requests]


@pytest.mark.parametrize("streamed", [True, False])
def test_a_chat_must_be_rendered_to_one_prompt(
    plain_relay: InProcessRelay, upstream: UpstreamTransport, *, streamed: bool
) -> None:
    upstream.replies(answer([generate_request()] * 2))
    assert read_error(plain_relay.post(CHAT, {"messages": [], "stream": streamed})) == BAD_GATEWAY
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("application/vnd.api+json", 200),
        ("text/plain", 415),
        ("text/plain; application/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data", 415),
        ("application/jsonx", 415),
        ("", 415),
    ],
)
def test_a_body_says_that_it_is_json(
    relay: InProcessRelay, upstream: UpstreamTransport, content_type: str, status: int
) -> None:
    """A page of another origin may send a body of some other types without asking."""
    upstream.replies(stream(chunks_of([9707, END])))
    response = relay.post(CHAT + RELAY, relay_chat(), {"content-type": content_type})
    assert response.status_code == status
    assert len(upstream.requests) == (status == 200)
    if status == 415:
        assert response.json()["error"]["message"] == "Content-Type must be application/json"
