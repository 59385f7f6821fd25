"""Requests to the relay's own routes."""

from __future__ import annotations

from typing import Any

from .generate_protocol import generate_request

__all__ = ["relay_chat", "relay_completion"]


def relay_chat(request: dict[str, Any] | None = None, **client: Any) -> dict[str, Any]:
    """Return a request to relay a chat, streamed by default."""
    client = {"model": "m", "messages": [], "stream": True, **client}
    return {"generate_request": request or generate_request(), "chat_request": client}


def relay_completion(request: dict[str, Any] | None = None, **client: Any) -> dict[str, Any]:
    """Return a request to relay a completion, streamed by default."""
    client = {"model": "m", "prompt": "Hi", "stream": True, **client}
    return {"generate_request": request or generate_request(), "completion_request": client}
