"""Observed applications, and the observations."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import IO, TYPE_CHECKING

import httpx
import pytest

from derender.http.app import create_app
from derender.models.layer import load_models
from derender.settings import Settings
from tests.support.api_client import Client
from tests.support.functions import same_logging
from tests.support.paths import HANDLERS
from tests.support.relay_server import RelayServer
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from derender.models.model import Models
    from derender.telemetry.observation import AnswerFacts, Observation, Observe
    from derender.telemetry.tally import Tally
    from tests.support.upstream_server import UpstreamServer


@pytest.fixture(autouse=True)
def _logging_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore logging, which functions take over for their whole process."""
    for name in ("uvicorn", "uvicorn.error"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    with same_logging():
        yield


@dataclass
class Observed:
    """An observer that keeps its observations."""

    all: list[Observation] = field(default_factory=list)

    def __call__(self, observation: Observation) -> None:
        self.all.append(observation)

    @property
    def only(self) -> Observation:
        """The only observation. A server makes it before the client has read the last byte."""
        wait_until(lambda: bool(self.all))
        (observation,) = self.all
        return observation

    @property
    def answer(self) -> AnswerFacts:
        """Facts about the only answer."""
        return self.only.answer

    @property
    def tally(self) -> Tally:
        """Tally of the only answer."""
        return self.answer.tally


@cache
def models(**settings: str) -> Models:
    """Return the bundled vocabulary, served."""
    return load_models(
        Settings.from_environment({f"DERENDER_{name.upper()}": text for name, text in settings.items()})
    )


@pytest.fixture
def observed() -> Observed:
    return Observed()


@pytest.fixture
def api(observed: Observed) -> Client:
    """Return a client of the observed application."""
    return client(observed)


def client(observe: Observe | None, **settings: str) -> Client:
    """Return a client of the application with an observer."""
    app = create_app(models(**settings), max_body_bytes=1 << 20, observe=observe)
    return Client(app)


@dataclass
class Relay:
    """A relay and its observers."""

    server: RelayServer
    observers: list[Observe]


@pytest.fixture(scope="session")
def relay_server(upstream_server: UpstreamServer) -> Iterator[Relay]:
    upstreams = {
        "gpu": {"url": upstream_server.url, "headers": {"authorization": "Bearer secret-token"}},
        "gone": "http://127.0.0.1:9",
    }
    environment = {
        "DERENDER_UPSTREAMS": json.dumps(upstreams),
        "DERENDER_RENDER_URL": upstream_server.url,
        "DERENDER_UPSTREAM_TIMEOUT": "0.5",
        "DERENDER_GENERATION_TIMEOUT": "0.5",
    }
    observers: list[Observe] = []

    def observe(observation: Observation) -> None:
        for each in observers:
            each(observation)

    with RelayServer(environment, keep_alive=15, max_body_bytes=1 << 20, observe=observe) as server:
        yield Relay(server, observers)


@pytest.fixture
def relay(relay_server: Relay, observed: Observed) -> RelayServer:
    """Return the observed relay."""
    relay_server.observers[:] = [observed]
    return relay_server.server


@contextmanager
def relay_script(log: IO[bytes], environment: Mapping[str, str]) -> Iterator[httpx.Client]:
    """Run the relay function without the Web Adapter, and return a client of it.

    Args:
        log: File for its log lines.
        environment: Its environment variables.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (
        subprocess.Popen(
            [sys.executable, str(HANDLERS / "relay.py")],
            env={"PORT": str(port), "PYTHONDONTWRITEBYTECODE": "1", **environment},
            stdout=log,
            stderr=log,
        ) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, verify=False, timeout=20) as asking,  # noqa: S501
    ):

        def is_ready() -> bool:
            with suppress(httpx.TransportError):
                return asking.get("/health").status_code == 200
            return False

        try:
            wait_until(is_ready, 20)
            yield asking
        finally:
            server.terminate()
