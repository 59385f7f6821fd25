"""No answer of the relay contains anything of the environment, of files or of the code, whatever goes wrong."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.leaks import CANARY, MESSAGE, SECRETS, every_function, leaks, provoke
from tests.support.paths import HANDLERS
from tests.support.relay_client import CHAT, RELAY
from tests.support.relay_in_process import InProcessRelay
from tests.support.relay_requests import relay_chat
from tests.support.relay_traffic import CHUNKS, REQUESTS, TWO_REQUESTS, answer_all
from tests.support.upstream_server import Reply, answer, break_off, sse

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from tests.support.relay_in_process import UpstreamTransport


@pytest.fixture(scope="module")
def relay(transport: UpstreamTransport) -> Iterator[InProcessRelay]:
    upstream = {"url": "http://gpu.internal", "headers": {"authorization": "Bearer ${GPU_TOKEN}"}}
    environment = {
        **SECRETS,
        "DERENDER_UPSTREAMS": json.dumps({"gpu": upstream, "gone": f"http://gone/{CANARY}"}),
        "DERENDER_RENDER_URL": json.dumps({**upstream, "headers": {"x-key": SECRETS["AWS_SESSION_TOKEN"]}}),
        "DERENDER_MODEL": "Qwen3",
    }
    with closing(InProcessRelay(environment, transport)) as relay:
        yield relay


def read_all(response: httpx.Response) -> str:
    return f"{response.reason_phrase} {response.headers} {response.text}"


def find_leaks(response: httpx.Response) -> list[str]:
    return leaks(read_all(response))


@pytest.mark.parametrize(("path", "body"), REQUESTS)
def test_an_answer_contains_nothing_of_the_environment(
    relay: InProcessRelay, upstream: UpstreamTransport, path: str, body: dict[str, Any]
) -> None:
    upstream.respond = answer_all
    response = relay.post(path, body)
    assert response.status_code == 200
    assert find_leaks(response) == []


WORDS: Final = (
    MESSAGE,
    SECRETS["GPU_TOKEN"],
    f"the token {SECRETS['GPU_TOKEN']} is not known",
    "no such file: /opt/models/x/config.json",
    "can't read '/etc/passwd'",
    "see http://10.0.0.1:8000/debug?token=1 and gpu.internal",
    f"http://gpu.internal/{CANARY}",
)
REPLIES: Final = [
    *(
        answer({"error": {"message": words, "param": words}}, status)
        for words in WORDS
        for status in (400, 401, 413, 422, 429, 500, 503)
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
def test_an_answer_contains_no_secret_that_an_upstream_tells(
    relay: InProcessRelay, upstream: UpstreamTransport, reply: Reply, *, streamed: bool
) -> None:
    upstream.replies(reply)
    response = relay.post(CHAT + RELAY, relay_chat(model=None, stream=streamed))
    assert find_leaks(response) == []
    assert "error" in response.text
    for secret in ("10.0.0.1", "gpu.internal", "/opt/", "/etc/"):
        assert secret not in response.text
    assert not response.headers.keys() & {"x-secret", "set-cookie", "location"}


def test_the_address_of_an_unreachable_upstream_is_secret(relay: InProcessRelay) -> None:
    response = relay.post(CHAT + RELAY, {**relay_chat(model=None), "upstream": "gone"})
    assert response.status_code == 502
    assert find_leaks(response) == []
    assert "http://" not in response.text


@pytest.mark.parametrize(
    "name", ["http://gpu.internal/x", "file:///etc/passwd", "${GPU_TOKEN}", "../gpu", "gpu\n"]
)
def test_an_upstream_has_a_name_and_clients_can_use_no_address(
    relay: InProcessRelay, upstream: UpstreamTransport, name: str
) -> None:
    response = relay.post(CHAT + RELAY, {**relay_chat(model=None), "upstream": name})
    assert response.status_code == 404
    assert find_leaks(response) == []
    assert upstream.requests == []


@every_function
def test_no_fault_leaks(relay: InProcessRelay, upstream: UpstreamTransport, *, every: bool) -> None:
    upstream.respond = answer_all

    def ask(path: str, body: object) -> str:
        try:
            return read_all(relay.post(path, body))
        except Exception:
            return ""  # the server would close the connection

    for path, body in REQUESTS:
        assert relay.post(path, body).status_code == 200
    provoked = provoke(
        [HANDLERS / "derender"], lambda: (ask(path, body) for path, body in TWO_REQUESTS), every=every
    )
    assert provoked.leaks == {}
    assert provoked.internal_errors > (100 if every else 20)
    assert [relay.post(path, body).status_code for path, body in REQUESTS] == [200] * len(REQUESTS)
