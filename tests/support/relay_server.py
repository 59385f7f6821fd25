"""The relay as it is deployed: behind uvicorn, asked over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from typing import TYPE_CHECKING, Self

import httpx
import uvicorn

from .relay_app import load_relay
from .relay_client import RelayClient
from .waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from derender.telemetry.observation import Observe

__all__ = ["RelayServer"]


class RelayServer(RelayClient):
    """The relay behind uvicorn."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        keep_alive: float,
        max_body_bytes: int,
        observe: Observe | None = None,
    ) -> None:
        app, _ = load_relay(environment, keep_alive=keep_alive, max_body_bytes=max_body_bytes, observe=observe)
        # The parser that is deployed, even if a faster one is installed.
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, http="h11", log_level="warning", access_log=False, lifespan="on"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        # Without certificates, which take long to load.
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

    def request(
        self, method: str, path: str, content: bytes = b"", headers: Mapping[str, str] = {}
    ) -> httpx.Response:
        """Send a request, and return the complete response."""
        return self._client.request(method, self.url + path, content=content, headers=dict(headers))

    def connect(self, path: str, body: object) -> socket.socket:
        """Open a connection, send a request on it, and read nothing."""
        content = json.dumps(body).encode()
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", self.port))
        head = (
            f"POST {path} HTTP/1.1\r\nhost: relay\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\n\r\n"
        )
        connection.sendall(head.encode() + content)
        return connection
