"""Servers of the relay's tests: upstreams, and the relay before them."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.support.relay_server import RelayServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.upstream_server import UpstreamServer


class Serve(Protocol):
    """Starts a relay before the upstream."""

    def __call__(
        self, *, keep_alive: float = 15, max_body_bytes: int = 8 << 20, **settings: str
    ) -> RelayServer: ...


@pytest.fixture(scope="session")
def serve(upstream_server: UpstreamServer) -> Iterator[Serve]:
    """Settings → a relay before the upstream, with a render service."""
    served: dict[Any, RelayServer] = {}
    with ExitStack() as stack:

        def start(*, keep_alive: float = 15, max_body_bytes: int = 8 << 20, **settings: str) -> RelayServer:
            key = (keep_alive, max_body_bytes, *sorted(settings.items()))
            if key not in served:
                upstreams = {
                    "gpu": {"url": upstream_server.url, "headers": {"authorization": "Bearer ${TOKEN}"}},
                    "other": f"{upstream_server.url}/other/",
                    "gone": "http://127.0.0.1:9",
                }
                environment = {
                    "TOKEN": "secret-token",
                    "DERENDER_UPSTREAMS": json.dumps(upstreams),
                    "DERENDER_RENDER_URL": json.dumps(
                        {"url": upstream_server.url, "headers": {"X-Key": "${TOKEN}"}}
                    ),
                    "DERENDER_SERVED_MODEL_NAME": "m,alias",
                    **{f"DERENDER_{name.upper()}": value for name, value in settings.items()},
                }
                server = RelayServer(environment, keep_alive=keep_alive, max_body_bytes=max_body_bytes)
                served[key] = stack.enter_context(server)
            return served[key]

        yield start


@pytest.fixture
def unused_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def relay(serve: Serve) -> RelayServer:
    """The relay, with Qwen3 and its parsers."""
    return serve()


@pytest.fixture
def plain(serve: Serve) -> RelayServer:
    """The relay, without parsers."""
    return serve(tool_call_parser="none", reasoning_parser="none")
