"""Nothing of the environment, of files or of the code is in an answer of the relay, whatever goes wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from tests.support.generate_protocol import chunks_of, generate_request, response_of, usage
from tests.support.leaks import CANARY, MESSAGE, SECRETS, every_function, leaks, provoke
from tests.support.paths import HANDLERS
from tests.support.qwen3 import END
from tests.support.relay_server import CHAT, COMPLETIONS, RELAY, RelayServer
from tests.support.upstream_server import RENDER_CHAT, RENDER_COMPLETIONS, Reply, answer, break_off, sse, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.upstream_server import ReceivedRequest, UpstreamServer

OUTPUT: Final = [9707, 11, 1879, 0, END]
CHUNKS: Final = [*chunks_of(OUTPUT), usage(9, 5)]


def asked(path: str, *, streamed: bool, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A request that has its generate request with it."""
    name = "chat_request" if path == CHAT else "completion_request"
    return path + RELAY, {"generate_request": generate_request(), name: {"stream": streamed}, **fields}


REQUESTS: Final = [
    asked(CHAT, streamed=True),
    asked(CHAT, streamed=False),
    asked(COMPLETIONS, streamed=True),
    (CHAT, {"messages": [], "stream": False}),
    (COMPLETIONS, {"prompt": "Once", "stream": True}),
]
DIFFERENT: Final = REQUESTS[0], REQUESTS[3]
"""Of these, two that go most of the ways."""


def generating(asked: ReceivedRequest) -> Reply:
    """What a generate server and a render service answer."""
    if asked.path in (RENDER_CHAT, RENDER_COMPLETIONS):
        return answer(generate_request())
    return stream(CHUNKS) if asked.body["stream"] else answer(response_of(OUTPUT))


@pytest.fixture(scope="module")
def relay(upstream_server: UpstreamServer) -> Iterator[RelayServer]:
    upstream = {"url": upstream_server.url, "headers": {"authorization": "Bearer ${GPU_TOKEN}"}}
    environment = {
        **SECRETS,
        "DERENDER_UPSTREAMS": json.dumps({"gpu": upstream, "gone": f"http://127.0.0.1:9/{CANARY}"}),
        "DERENDER_RENDER_URL": json.dumps({**upstream, "headers": {"x-key": SECRETS["AWS_SESSION_TOKEN"]}}),
        "DERENDER_MODEL": "Qwen3",
    }
    before = upstream_server.respond
    with RelayServer(environment, keep_alive=15, max_body_bytes=1 << 20) as relay:
        yield relay
    upstream_server.respond = before


def told(response: httpx.Response) -> list[str]:
    """What a response holds that nobody may see."""
    return leaks(written(response))


def written(response: httpx.Response) -> str:
    """All of a response."""
    return f"{response.reason_phrase} {response.headers} {response.text}"


@pytest.mark.parametrize(("path", "body"), REQUESTS)
def test_an_answer_holds_nothing_of_the_environment(
    relay: RelayServer, upstream: UpstreamServer, path: str, body: dict[str, Any]
) -> None:
    upstream.respond = generating
    response = relay.post(path, body)
    assert response.status_code == 200
    assert told(response) == []


WORDS: Final = (
    MESSAGE,
    SECRETS["GPU_TOKEN"],
    f"the token {SECRETS['GPU_TOKEN']} is not known",
    "no such file: /opt/models/x/config.json",
    "can't read '/etc/passwd'",
    "see http://10.0.0.1:8000/debug?token=1 and 127.0.0.1",
    f"http://127.0.0.1:1/{CANARY}",
)
REPLIES: Final = [
    *(
        answer({"error": {"message": words}}, status)
        for words in WORDS
        for status in (400, 401, 413, 422, 429, 500)
    ),
    *(answer({"detail": [{"msg": words, "input": CANARY}]}, 422) for words in WORDS),
    *(Reply([words.encode()], 503, "text/plain", [("retry-after", words.split("\n")[0])]) for words in WORDS),
    answer({}, 429, [("retry-after", CANARY), ("x-secret", CANARY), ("set-cookie", CANARY)]),
    answer({}, 302, [("location", f"http://127.0.0.1:1/{CANARY}")]),
    answer({"choices": MESSAGE}),
    answer(
        {"request_id": "r", "choices": [{"index": 0, "token_ids": [9707], "logprobs": {"content": CANARY}}]}
    ),
    Reply([MESSAGE.encode()], 200),
    Reply([b"data: " + CANARY.encode() + b"\n\n"]),
    *(Reply([sse({"error": {"message": words, "code": 400}})]) for words in WORDS),
    *(Reply([sse(CHUNKS[0]), sse({"error": {"message": words, "code": 400}})]) for words in WORDS),
    Reply([sse(CHUNKS[0]), break_off]),
    Reply([], before=[break_off]),
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("reply", REPLIES)
def test_what_an_upstream_says_of_itself_is_not_told(
    relay: RelayServer, upstream: UpstreamServer, reply: Reply, *, streamed: bool
) -> None:
    upstream.respond = lambda _: reply
    response = relay.post(*asked(CHAT, streamed=streamed))
    assert told(response) == []
    assert "error" in response.text
    assert "10.0.0.1" not in response.text
    assert "/opt/" not in response.text
    assert "/etc/" not in response.text
    assert not response.headers.keys() & {"x-secret", "set-cookie", "location"}


def test_where_an_upstream_is_that_can_not_be_reached_is_not_told(relay: RelayServer) -> None:
    response = relay.post(*asked(CHAT, streamed=True, upstream="gone"))
    assert response.status_code == 502
    assert told(response) == []
    assert "127.0.0.1" not in response.text


def test_an_upstream_is_named_and_never_addressed(relay: RelayServer, upstream: UpstreamServer) -> None:
    for name in (f"{upstream.url}/x", "file:///etc/passwd", "${GPU_TOKEN}", "../gpu", "gpu\n"):
        response = relay.post(*asked(CHAT, streamed=True, upstream=name))
        assert response.status_code == 404
        assert told(response) == []
    assert upstream.requests == []


@pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")  # of what fails half way
@every_function
def test_no_fault_of_a_function_is_told(relay: RelayServer, upstream: UpstreamServer, *, every: bool) -> None:
    upstream.respond = generating

    def answered(path: str, body: object) -> str:
        try:
            return written(relay.post(path, body))
        except httpx.TransportError:
            return ""  # where nothing more can be said, the connection is closed

    for path, body in REQUESTS:
        assert relay.post(path, body).status_code == 200
    provoked = provoke(
        [HANDLERS / "derender"],
        lambda: (answered(path, body) for path, body in DIFFERENT),
        every=every,
    )
    assert provoked.leaks == {}
    assert provoked.internal_errors > (100 if every else 20)
    assert [relay.post(path, body).status_code for path, body in REQUESTS] == [200] * len(REQUESTS)
