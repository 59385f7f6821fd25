"""Real tokenizers, the layers compiled from them, the function that serves them; and generate servers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

import pytest
import tokenizers
from mangum import Mangum

import derender
import layer_compiler
from derender.http.app import create_app
from derender.models.layer import load_models
from derender.settings import Settings
from fetch import fetch, held

from .relay.upstream import UpstreamServer

CACHE: Final = Path(__file__).parents[1] / ".cache"
PEER_DEEPSEEK: Final = "deepseek_v3_peer"
"""DeepSeek V3 as the peer loaded it: with the decoder of a SentencePiece tokenizer."""
SENTENCE_PIECE: Final = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ],
}


class Endpoint:
    """A deployed function: requests go in as API Gateway events (payload format 2.0)."""

    def __init__(self, handler: Mangum, thread: Executor) -> None:
        self._handler = handler
        self._thread = thread

    def post(self, path: str, body: object) -> tuple[int, Any]:
        """Send JSON; bytes are sent as they are. Returns the status and the parsed body."""
        return self.request("POST", path, body if isinstance(body, bytes) else json.dumps(body))

    def get(self, path: str) -> tuple[int, Any]:
        """Returns the status and the parsed body."""
        return self.request("GET", path)

    def request(self, method: str, path: str, content: str | bytes = "") -> tuple[int, Any]:
        """Returns the status and the parsed body; None is an empty one."""
        event = {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": path,
            "rawQueryString": "",
            "headers": {"content-type": "application/json"},
            "requestContext": {
                "http": {"method": method, "path": path, "sourceIp": "192.0.2.1"},
                "stage": "$default",
            },
            "body": base64.b64encode(content).decode() if isinstance(content, bytes) else content,
            "isBase64Encoded": isinstance(content, bytes),
        }
        answer = self._thread.submit(self._handler, event, cast("Any", None)).result()
        text = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"]
        return answer["statusCode"], json.loads(text) if text else None


TokenizerFolder = Callable[[str], Path]
LayerFolder = Callable[[str], Path]
Deploy = Callable[[str, Mapping[str, str]], Endpoint]


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> TokenizerFolder:
    """Name → the tokenizer's folder, fetched where it is not there yet."""

    def make(name: str) -> Path:
        if name != PEER_DEEPSEEK:
            return fetch(CACHE / "tokenizers", name)
        folder = tmp_path_factory.mktemp("tokenizers") / name
        _with_decoder(fetch(CACHE / "tokenizers", "deepseek_v3"), folder, SENTENCE_PIECE)
        return folder

    return _once(make)


@pytest.fixture(scope="session")
def layer(tokenizer: TokenizerFolder) -> LayerFolder:
    """Tokenizer name → the layer compiled from it. Kept until the tokenizer or the compiler changes."""
    return _once(lambda name: _compiled(tokenizer(name), name))


@pytest.fixture(scope="session")
def deploy(layer: LayerFolder) -> Iterator[Deploy]:
    """Tokenizer name, environment → the function that serves it, as in `handlers/api.py`."""
    loop = asyncio.new_event_loop()
    endpoints: dict[tuple[str, frozenset[tuple[str, str]]], Endpoint] = {}

    def endpoint(name: str, environment: Mapping[str, str]) -> Endpoint:
        key = (name, frozenset(environment.items()))
        if key not in endpoints:
            settings = Settings.from_environment({"DERENDER_LAYER": str(layer(name)), **environment})
            app = create_app(load_models(settings), max_body_bytes=settings.max_body_bytes)
            handler = thread.submit(Mangum, app, lifespan="off").result()
            endpoints[key] = Endpoint(handler, thread)
        return endpoints[key]

    # The adapter runs on its thread's loop; in a thread of its own, no other test takes that away.
    with ThreadPoolExecutor(1, initializer=asyncio.set_event_loop, initargs=(loop,)) as thread:
        yield endpoint
    loop.close()


@pytest.fixture(scope="session")
def upstream_server() -> Iterator[UpstreamServer]:
    with UpstreamServer() as server:
        yield server


@pytest.fixture
def upstream(upstream_server: UpstreamServer) -> UpstreamServer:
    """The generate server, which is the render service too. Nothing was asked of it."""
    upstream_server.forget()
    return upstream_server


def _once(make: Callable[[str], Path]) -> Callable[[str], Path]:
    """Make each name once: what failed takes as long again, and fails again, for each of thousands of tests."""
    made: dict[str, Path] = {}
    failed: dict[str, Exception] = {}

    def folder(name: str) -> Path:
        if name in failed:
            raise RuntimeError(f"{name} has failed before: {failed[name]}")
        if name not in made:
            try:
                made[name] = make(name)
            except Exception as error:
                failed[name] = error
                raise
        return made[name]

    return folder


def _compiled(folder: Path, name: str) -> Path:
    layers = CACHE / "layers" / name
    current = layers / _key(folder)
    with held(layers):
        if not current.is_dir():
            with tempfile.TemporaryDirectory(dir=layers, prefix=".") as work:
                layer_compiler.build(folder, name, Path(work, "layer"))
                for stale in layers.glob("[!.]*"):
                    shutil.rmtree(stale)
                Path(work, "layer").rename(current)
    return current


def _key(folder: Path) -> str:
    """What a compiled layer depends on, as one short hash."""
    packages = (Path(package.__path__[0]).rglob("*.py") for package in (layer_compiler, derender))
    digest = hashlib.sha256(tokenizers.__version__.encode())
    for path in (*sorted(chain(*packages)), *sorted(folder.iterdir())):
        content = path.read_bytes()
        digest.update(f"\0{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _with_decoder(folder: Path, target: Path, decoder: object) -> None:
    """Copy a tokenizer with another decoder."""
    shutil.copytree(folder, target)
    path = target / "tokenizer.json"
    definition = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**definition, "decoder": decoder}), encoding="utf-8")
