"""No answer of the relay behind uvicorn leaks anything, wherever it fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.support.leaks import CANARY, SECRETS, every_function, provoke
from tests.support.paths import HANDLERS
from tests.support.relay_server import RelayServer
from tests.support.relay_traffic import REQUESTS, TWO_REQUESTS, answer_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.upstream_server import UpstreamServer


@pytest.fixture(scope="module")
def relay(upstream_server: UpstreamServer) -> Iterator[RelayServer]:
    upstream = {"url": upstream_server.url, "headers": {"authorization": "Bearer ${GPU_TOKEN}"}}
    environment = {
        **SECRETS,
        "DERENDER_UPSTREAMS": json.dumps({"gpu": upstream, "gone": f"http://127.0.0.1:9/{CANARY}"}),
        "DERENDER_RENDER_URL": json.dumps({**upstream, "headers": {"x-key": SECRETS["AWS_SESSION_TOKEN"]}}),
        "DERENDER_MODEL": "Qwen3",
    }
    with RelayServer(environment, keep_alive=15, max_body_bytes=1 << 20) as relay:
        yield relay


@every_function
@pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")  # of requests that fail half way
def test_no_fault_leaks(relay: RelayServer, upstream: UpstreamServer, *, every: bool) -> None:
    upstream.respond = answer_all

    def ask(path: str, body: object) -> str:
        try:
            response = relay.post(path, body)
        except httpx.TransportError:
            return ""  # the server closes the connection if nothing more can be said
        return f"{response.reason_phrase} {response.headers} {response.text}"

    for path, body in REQUESTS:
        assert relay.post(path, body).status_code == 200
    provoked = provoke(
        [HANDLERS / "derender"], lambda: (ask(path, body) for path, body in TWO_REQUESTS), every=every
    )
    assert provoked.leaks == {}
    assert provoked.internal_errors > (100 if every else 20)
    assert [relay.post(path, body).status_code for path, body in REQUESTS] == [200] * len(REQUESTS)
