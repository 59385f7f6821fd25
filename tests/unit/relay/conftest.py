"""The relay and its upstreams in this process."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.support.relay_faults import expect_clean_log
from tests.support.relay_in_process import InProcessRelay, UpstreamTransport

if TYPE_CHECKING:
    from collections.abc import Iterator


class RelayFactory(Protocol):
    """Makes a relay from settings, with a render service and three generate servers."""

    def __call__(
        self, *, keep_alive: float = 15, max_body_bytes: int = 8 << 20, **settings: str
    ) -> InProcessRelay: ...


@pytest.fixture(scope="session")
def transport() -> UpstreamTransport:
    return UpstreamTransport()


@pytest.fixture
def upstream(transport: UpstreamTransport) -> UpstreamTransport:
    """All upstreams. They have received no request yet."""
    transport.forget()
    return transport


@pytest.fixture(scope="session")
def make_relay(transport: UpstreamTransport) -> Iterator[RelayFactory]:
    relays: dict[Any, InProcessRelay] = {}
    upstreams = {
        "gpu": {"url": "http://gpu.internal:8000", "headers": {"authorization": "Bearer ${TOKEN}"}},
        "other": "http://gpu.internal:8000/other/",
        "gone": "http://gone",
    }
    environment = {
        "TOKEN": "secret-token",
        "DERENDER_UPSTREAMS": json.dumps(upstreams),
        "DERENDER_RENDER_URL": json.dumps(
            {"url": "http://gpu.internal:9000", "headers": {"X-Key": "${TOKEN}"}}
        ),
        "DERENDER_SERVED_MODEL_NAME": "m,alias",
    }
    with ExitStack() as stack:

        def make(*, keep_alive: float = 15, max_body_bytes: int = 8 << 20, **settings: str) -> InProcessRelay:
            key = (keep_alive, max_body_bytes, *sorted(settings.items()))
            if key not in relays:
                variables = {f"DERENDER_{name.upper()}": value for name, value in settings.items()}
                relay = InProcessRelay(
                    {**environment, **variables},
                    transport,
                    keep_alive=keep_alive,
                    max_body_bytes=max_body_bytes,
                )
                relays[key] = stack.enter_context(closing(relay))
            return relays[key]

        yield make


@pytest.fixture
def relay(make_relay: RelayFactory) -> InProcessRelay:
    """The relay with the bundled vocabulary and its parsers."""
    return make_relay()


@pytest.fixture
def plain_relay(make_relay: RelayFactory) -> InProcessRelay:
    """The relay without parsers."""
    return make_relay(tool_call_parser="none", reasoning_parser="none")


@pytest.fixture
def _clean_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The log has no secret and no unexpected exception."""
    with expect_clean_log(caplog):
        yield
