"""The relay as it is served, on this machine, and clients of it."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

import httpx
import uvicorn

from derender.models.layer import load_models
from derender.relay import read_relay_settings
from derender.relay.app import create_relay_app
from derender.settings import Settings

from .waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from derender.telemetry.observation import Observe

__all__ = ["CHAT", "COMPLETIONS", "RELAY", "RelayServer", "events_of", "finishes", "text_of"]

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
RELAY: Final = "/derender/relay"


class RelayServer:
    """The relay under uvicorn."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        keep_alive: float,
        max_body_bytes: int,
        observe: Observe | None = None,
    ) -> None:
        settings = Settings.from_environment(environment)
        relay = read_relay_settings(settings, environment)
        assert relay is not None
        app = create_relay_app(
            load_models(settings),
            replace(relay, keep_alive=keep_alive),
            max_body_bytes=max_body_bytes,
            observe=observe,
        )
        # With the parser that is deployed, also where a faster one is installed.
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, http="h11", log_level="warning", access_log=False, lifespan="on"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        # Nothing is encrypted here, and certificates take long to load.
        self._client = httpx.Client(trust_env=False, verify=False, timeout=20)  # noqa: S501

    def __enter__(self) -> Self:
        self._thread.start()
        wait_until(lambda: self._server.started)
        self.port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._server.should_exit = True
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def post(self, path: str, body: object, headers: Mapping[str, str] = {}) -> httpx.Response:
        """The response, whole."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._client.post(self.url + path, content=content, headers=dict(headers))

    def get(self, path: str) -> httpx.Response:
        """The response."""
        return self._client.get(self.url + path)

    def stream(self, path: str, body: object) -> list[Any]:
        """The events of a stream that ends as it should, without the last."""
        response = self.post(path, body)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        *events, done = events_of(response.content)
        assert done == "[DONE]"
        assert all("error" not in event for event in events), events[-1]
        return events

    def connect(self, path: str, body: object) -> socket.socket:
        """A connection on which a request was sent, and nothing was read."""
        content = json.dumps(body).encode()
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", self.port))
        head = f"POST {path} HTTP/1.1\r\nhost: relay\r\ncontent-length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content)
        return connection


def events_of(content: bytes) -> list[Any]:
    """The events of a stream: JSON, or `[DONE]`. Comments are left out."""
    events: list[Any] = []
    for block in content.decode().split("\n\n"):
        if block and not block.startswith(":"):
            data = block.removeprefix("data: ")
            assert data != block
            events.append(data if data == "[DONE]" else json.loads(data))
    return events


def text_of(events: Sequence[dict[str, Any]], index: int = 0) -> str:
    """The text of a choice that a stream's chunks add up to."""
    return "".join(_texts(events, index))


def _texts(events: Sequence[dict[str, Any]], index: int) -> Iterator[str]:
    for event in events:
        for choice in event["choices"]:
            if choice["index"] == index:
                yield choice["text"] if "text" in choice else choice["delta"]["content"] or ""


def finishes(events: Sequence[dict[str, Any]]) -> dict[int, list[str]]:
    """Index → the reasons to finish that a stream has."""
    reasons: dict[int, list[str]] = {}
    for event in events:
        for choice in event["choices"]:
            reasons.setdefault(choice["index"], [])
            if choice["finish_reason"] is not None:
                reasons[choice["index"]].append(choice["finish_reason"])
    return reasons
