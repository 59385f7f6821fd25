"""Fixtures for all tests: real tokenizers, their layers and clients that serve them, and a generate server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import hypothesis
import pytest

from derender.http.app import create_app
from derender.models.layer import load_models
from derender.settings import Settings
from derender.telemetry.log_lines import INVOCATION
from derender.telemetry.request_ids import REQUEST_ID
from tests.support.api_client import Client
from tests.support.compiled import compiled_layer, tokenizer_folder
from tests.support.environment import isolate
from tests.support.upstream_server import UpstreamServer

TokenizerFolder = Callable[[str], Path]
LayerFolder = Callable[[str], Path]
Deploy = Callable[[str, Mapping[str, str]], Client]


def pytest_configure() -> None:
    """Isolate this process before tests are collected and before pytest-xdist starts its workers."""
    isolate()
    # A busy machine is no failure.
    hypothesis.settings.register_profile("tests", deadline=None)
    hypothesis.settings.load_profile("tests")


@pytest.fixture(autouse=True)
def _no_invocation() -> None:
    """End the invocation of another test."""
    REQUEST_ID.set(None)
    INVOCATION.set({})


@pytest.fixture(scope="session")
def tokenizer() -> TokenizerFolder:
    """Return a tokenizer's folder by its name."""
    return tokenizer_folder


@pytest.fixture(scope="session")
def layer() -> LayerFolder:
    """Return the layer compiled from a tokenizer by the tokenizer's name."""
    return lambda name: compiled_layer(tokenizer_folder(name), name)


@pytest.fixture(scope="session")
def deploy(layer: LayerFolder) -> Deploy:
    """Serve a tokenizer with the given environment variables, as `handlers/api.py` does."""

    @cache
    def serve(name: str, environment: frozenset[tuple[str, str]]) -> Client:
        settings = Settings.from_environment({"DERENDER_LAYER": str(layer(name)), **dict(environment)})
        return Client(create_app(load_models(settings), max_body_bytes=settings.max_body_bytes))

    return lambda name, environment: serve(name, frozenset(environment.items()))


@pytest.fixture(scope="session")
def upstream_server() -> Iterator[UpstreamServer]:
    """Run a generate server and render service."""
    with UpstreamServer() as server:
        yield server


@pytest.fixture
def upstream(upstream_server: UpstreamServer) -> UpstreamServer:
    """Return the generate server and render service, without the requests of earlier tests."""
    upstream_server.forget()
    return upstream_server
