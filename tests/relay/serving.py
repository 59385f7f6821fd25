"""The relay as it is served, on this machine, and clients of it."""

from __future__ import annotations

import json
import re
import socket
import threading
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

import httpx
import uvicorn

from derender.models.layer import load_models
from derender.relay import read_relay_settings
from derender.relay.app import create_relay_app
from derender.settings import Settings

from .upstream import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from derender.telemetry.observation import Observe

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
RELAY: Final = "/derender/relay"
END: Final = 151_645
"""The id that ends a turn of Qwen3."""
PROMPT: Final = [151_644, 872, 198, 13_048, END, 198, 151_644, 77_091, 198]
"""Ids of a Qwen3 prompt."""


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


# --- generations ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Qwen3:
    """The bundled vocabulary, as an encoder: of several ways to write a text, that of the longest tokens."""

    ids: dict[bytes, int]
    markers: re.Pattern[bytes]
    longest: int = 24

    def encode(self, text: str) -> list[int]:
        """Ids of a text; the names of markers are markers."""
        encoded: list[int] = []
        for part in self.markers.split(text.encode()):
            if self.markers.fullmatch(part):
                encoded.append(self.ids[part])
                continue
            begin = 0
            while begin < len(part):
                for size in range(min(self.longest, len(part) - begin), 0, -1):
                    token_id = self.ids.get(part[begin : begin + size])
                    if token_id is not None:
                        encoded.append(token_id)
                        begin += size
                        break
        return encoded


@cache
def qwen3() -> Qwen3:
    """The encoder of the bundled vocabulary."""
    vocabulary = load_models(Settings.from_environment({})).find(None).model.vocabulary
    manifest = vocabulary.manifest
    ids = {vocabulary.pieces[token_id]: token_id for token_id in reversed(range(manifest.named))}
    markers = b"|".join(re.escape(vocabulary.pieces[token_id]) for token_id in manifest.added_token_ids)
    return Qwen3(ids, re.compile(b"(" + markers + b")"))


def chunks_of(
    token_ids: Sequence[int],
    *,
    index: int = 0,
    size: int = 1,
    finish_reason: str | None = "stop",
    request_id: str | None = "generate-1",
) -> list[dict[str, Any]]:
    """The generate chunks of a choice."""
    chunks = []
    for begin in range(0, len(token_ids), size):
        last = begin + size >= len(token_ids)
        choice = {
            "index": index,
            "token_ids": list(token_ids[begin : begin + size]),
            "finish_reason": finish_reason if last else None,
        }
        chunks.append({"request_id": request_id, "choices": [choice]})
    return chunks


def usage(prompt: int, generated: int) -> dict[str, Any]:
    """The chunk that counts."""
    counted = {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}
    return {"request_id": "generate-1", "choices": [], "usage": counted}


def response_of(*outputs: Sequence[int], finish_reason: str = "stop") -> dict[str, Any]:
    """A generate response."""
    choices = [
        {"index": index, "token_ids": list(token_ids), "finish_reason": finish_reason}
        for index, token_ids in enumerate(outputs)
    ]
    return {"request_id": "generate-1", "choices": choices}


def generate_request(**fields: Any) -> dict[str, Any]:
    """What a render service makes."""
    return {
        "request_id": "chatcmpl-1",
        "token_ids": PROMPT,
        "sampling_params": {"max_tokens": 100, "temperature": 0.5},
        "model": "m",
        **fields,
    }


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
