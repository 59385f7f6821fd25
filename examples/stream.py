"""Stream a generation through the derender endpoint: one chunk per request, several, and as events.

    python examples/stream.py [URL]

Needs a server: `make serve`. The generation comes from stream.json, one token per chunk.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PATH = "/v1/chat/completions/derender"
GENERATED: dict[str, Any] = json.loads(Path(__file__).with_name("stream.json").read_text(encoding="utf-8"))


def generate_chunks() -> list[dict[str, Any]]:
    """Return the chunks that a generate server sends, one per event."""
    token_ids = GENERATED["token_ids"]
    return [
        {
            "request_id": GENERATED["request_id"],
            "choices": [
                {
                    "index": 0,
                    "token_ids": [token_id],
                    "finish_reason": "stop" if place == len(token_ids) - 1 else None,
                }
            ],
        }
        for place, token_id in enumerate(token_ids)
    ]


def post(url: str, body: dict[str, Any], accept: str = "application/json") -> bytes:
    """Send a streaming request and return the body of the answer."""
    shared = {name: GENERATED[name] for name in ("prompt_token_ids", "chat_request")}
    request = urllib.request.Request(
        url + PATH,
        json.dumps({"stream": True, **shared, **body}).encode(),
        {"content-type": "application/json", "accept": accept},
    )
    try:
        with urllib.request.urlopen(request) as response:
            content: bytes = response.read()
    except urllib.error.URLError as error:
        sys.exit(f"{url}: {error.reason}; start a server with: make serve")
    return content


def show(chunk: dict[str, Any]) -> None:
    """Print what a chunk adds to the answer, if anything."""
    for choice in chunk["choices"]:
        added = {name: value for name, value in choice["delta"].items() if value is not None}
        if choice["finish_reason"]:
            added["finish_reason"] = choice["finish_reason"]
        if added:
            print(json.dumps(added, ensure_ascii=False))


def main() -> None:
    parser = argparse.ArgumentParser(description="Stream a generation through the derender endpoint.")
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:8000", help="the server (%(default)s)")
    url = parser.parse_args().url

    print("--- one chunk per request")
    state = None
    for chunk in generate_chunks():
        answer = json.loads(post(url, {"generate_chunk": chunk, "stream_state": state}))
        state = answer["stream_state"]
        show(answer["chunk"])

    print("--- sixteen chunks per request")
    state = None
    for begin in range(0, len(generate_chunks()), 16):
        chunks = generate_chunks()[begin : begin + 16]
        answer = json.loads(post(url, {"generate_chunks": chunks, "stream_state": state}))
        state = answer["stream_state"]
        for chunk in answer["chunks"]:
            show(chunk)

    print("--- all chunks in one request, as server-sent events")
    print(post(url, {"generate_chunks": generate_chunks()}, accept="text/event-stream").decode()[-400:])


if __name__ == "__main__":
    main()
