"""Requests to the relay, and the streams that it answers with."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import httpx

__all__ = ["CHAT", "COMPLETIONS", "RELAY", "RelayClient", "events_of", "finishes", "text_of"]

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
RELAY: Final = "/derender/relay"


class RelayClient(ABC):
    """Sends requests to a relay."""

    @abstractmethod
    def request(
        self, method: str, path: str, content: bytes = b"", headers: Mapping[str, str] = {}
    ) -> httpx.Response:
        """Send a request, and return the complete response."""

    def post(self, path: str, body: object, headers: Mapping[str, str] = {}) -> httpx.Response:
        """Post JSON, or bytes as they are."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, content, {"content-type": "application/json", **headers})

    def get(self, path: str) -> httpx.Response:
        """Send a GET request."""
        return self.request("GET", path)

    def stream(self, path: str, body: object) -> list[Any]:
        """Post JSON, and return the events of a stream that ends well, without the last."""
        response = self.post(path, body)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        *events, done = events_of(response.content)
        assert done == "[DONE]"
        assert all("error" not in event for event in events), events[-1]
        return events


def events_of(content: bytes) -> list[Any]:
    """Read the events of a stream: JSON, or `[DONE]`. Comments are left out."""
    events: list[Any] = []
    for block in content.decode().split("\n\n"):
        if block and not block.startswith(":"):
            data = block.removeprefix("data: ")
            assert data != block
            events.append(data if data == "[DONE]" else json.loads(data))
    return events


def text_of(events: Sequence[dict[str, Any]], index: int = 0) -> str:
    """Join the text of a choice from the chunks of a stream."""
    return "".join(_texts(events, index))


def _texts(events: Sequence[dict[str, Any]], index: int) -> Iterator[str]:
    for event in events:
        for choice in event["choices"]:
            if choice["index"] == index:
                yield choice["text"] if "text" in choice else choice["delta"]["content"] or ""


def finishes(events: Sequence[dict[str, Any]]) -> dict[int, list[str]]:
    """Collect the finish reasons of a stream by choice."""
    reasons: dict[int, list[str]] = {}
    for event in events:
        for choice in event["choices"]:
            reasons.setdefault(choice["index"], [])
            if choice["finish_reason"] is not None:
                reasons[choice["index"]].append(choice["finish_reason"])
    return reasons
