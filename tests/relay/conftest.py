"""The relay behind uvicorn, in front of an upstream on this machine."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.support.relay_faults import expect_clean_log
from tests.support.relay_server import RelayServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.upstream_server import UpstreamServer


class RelayFactory(Protocol):
    """Starts a relay with settings, in front of the upstream, which also renders."""

    def __call__(self, **settings: str) -> RelayServer: ...


@pytest.fixture(scope="session")
def make_relay(upstream_server: UpstreamServer) -> Iterator[RelayFactory]:
    relays: dict[Any, RelayServer] = {}
    with ExitStack() as stack:

        def make(**settings: str) -> RelayServer:
            key = tuple(sorted(settings.items()))
            if key not in relays:
                environment = {
                    "DERENDER_UPSTREAMS": json.dumps({"gpu": upstream_server.url}),
                    "DERENDER_RENDER_URL": upstream_server.url,
                    "DERENDER_SERVED_MODEL_NAME": "m",
                    **{f"DERENDER_{name.upper()}": value for name, value in settings.items()},
                }
                relays[key] = stack.enter_context(
                    RelayServer(environment, keep_alive=15, max_body_bytes=8 << 20)
                )
            return relays[key]

        yield make


@pytest.fixture
def relay(make_relay: RelayFactory) -> RelayServer:
    """The relay with the bundled vocabulary and its parsers."""
    return make_relay()


@pytest.fixture
def plain_relay(make_relay: RelayFactory) -> RelayServer:
    """The relay without parsers."""
    return make_relay(tool_call_parser="none", reasoning_parser="none")


@pytest.fixture
def unused_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def _clean_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The log has no secret and no unexpected exception."""
    with expect_clean_log(caplog):
        yield
