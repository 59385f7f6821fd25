"""A stand-in for a GPU server and a render service. Every request gets the generation in stream.json.

    python examples/generate_server.py [PORT]

It answers `POST /inference/v1/generate`, streaming or complete, and the two `/render` endpoints, for one prompt
and one choice.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

GENERATED: dict[str, Any] = json.loads(Path(__file__).with_name("stream.json").read_text(encoding="utf-8"))
BETWEEN_TOKENS = 0.03


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a request."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        match self.path:
            case "/v1/chat/completions/render":
                self._send_json(self._rendered(request, "chatcmpl-1"))
            case "/v1/completions/render":
                self._send_json([self._rendered(request, "cmpl-1")])
            case "/inference/v1/generate" if request.get("stream"):
                # The client may leave before the end.
                with suppress(ConnectionError):
                    self._stream(request)
                self.close_connection = True
            case "/inference/v1/generate":
                choice = {"index": 0, "token_ids": GENERATED["token_ids"], "finish_reason": "stop"}
                self._send_json({"request_id": request.get("request_id", "gen-1"), "choices": [choice]})
            case _:
                self.send_error(404)

    def _rendered(self, request: dict[str, Any], request_id: str) -> dict[str, Any]:
        return {
            "request_id": request_id,
            "token_ids": GENERATED["prompt_token_ids"],
            "sampling_params": {"max_tokens": 512},
            "model": request.get("model"),
            "stream": bool(request.get("stream")),
        }

    def _send_json(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, request: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        request_id, prompt = request.get("request_id", "gen-1"), len(request["token_ids"])
        for place, token_id in enumerate(GENERATED["token_ids"], 1):
            ended = place == len(GENERATED["token_ids"])
            choice = {"index": 0, "token_ids": [token_id], "finish_reason": "stop" if ended else None}
            self._event(json.dumps({"request_id": request_id, "choices": [choice]}))
            time.sleep(BETWEEN_TOKENS)
        usage = {"prompt_tokens": prompt, "completion_tokens": place, "total_tokens": prompt + place}
        self._event(json.dumps({"request_id": request_id, "choices": [], "usage": usage}))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.wfile.flush()


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8001
    print(f"http://127.0.0.1:{port}")
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
