"""A stand-in for a generate server and a render service: try the relay without a GPU.

    python examples/generate_server.py [PORT]

Whatever the prompt is, it generates what stream.json contains: one choice, one token every 30 ms.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping

MODEL = "Qwen/Qwen3-8B"
GENERATED: dict[str, Any] = json.loads(Path(__file__).with_name("stream.json").read_text(encoding="utf-8"))
SECONDS_PER_TOKEN = 0.03


@dataclass(frozen=True)
class Request:
    """An HTTP request."""

    path: str
    headers: Mapping[str, str]
    content: bytes
    client: tuple[str, int]
    """Address of the client's end of the connection."""

    @property
    def body(self) -> Any:
        """The JSON body."""
        return json.loads(self.content)


@dataclass(frozen=True)
class Response:
    """An HTTP response. Its body is sent part by part, and cancelled if the client disconnects."""

    body: AsyncGenerator[bytes, None]
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)


class HttpServer:
    """An HTTP/1.1 server. In a `with` block, it runs in a thread of its own.

    `respond` returns the response to a request. To lose the connection, it or the response's body may raise
    `ConnectionError`.
    """

    def __init__(self, respond: Callable[[Request], Awaitable[Response]], port: int = 0) -> None:
        self._respond = respond
        self._stopped = asyncio.Event()
        self.socket = socket.create_server(("127.0.0.1", port))
        self.port: int = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self.serve())

    async def serve(self) -> None:
        """Answer requests until the server is stopped."""
        server = await asyncio.start_server(self._accept, sock=self.socket)
        await self._stopped.wait()
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        early = b""
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    request = await _read_request(early, reader, writer)
                    early = await _run_while_connected(self._answer(request, writer), reader)
        finally:
            writer.transport.abort()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        response = await self._respond(request)
        headers = (*response.headers, ("transfer-encoding", "chunked"))
        head = [f"HTTP/1.1 {response.status} -", *(f"{name}: {value}" for name, value in headers)]
        writer.write("\r\n".join([*head, "", ""]).encode("latin-1"))
        async with aclosing(response.body) as parts:
            async for part in parts:
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def _read_request(early: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    head = early + await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(first.split()[1], headers, content, writer.get_extra_info("peername"))


async def _run_while_connected(answering: Coroutine[Any, Any, None], reader: asyncio.StreamReader) -> bytes:
    """Answer a request, unless the client disconnects. Returns what it sent of the next request meanwhile."""
    answer, more = asyncio.ensure_future(answering), asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait([answer, more], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done() and not more.result():
            raise ConnectionResetError
        await answer
    finally:
        answer.cancel()
        more.cancel()
        await asyncio.gather(answer, more, return_exceptions=True)
    return b"" if more.cancelled() else more.result()


# --- what it generates ----------------------------------------------------------------------------------------


async def respond(request: Request) -> Response:
    """Answer as a generate server and as a render service."""
    match request.path:
        case "/v1/models":
            return Response(
                _json({"object": "list", "data": [{"id": MODEL, "object": "model", "root": MODEL}]})
            )
        case "/v1/chat/completions/render":
            return Response(_json(_generate_request(request.body, "chatcmpl-1")))
        case "/v1/completions/render":
            return Response(_json([_generate_request(request.body, "cmpl-1")]))
        case "/inference/v1/generate" if request.body.get("stream"):
            return Response(_stream(request.body), headers=(("content-type", "text/event-stream"),))
        case "/inference/v1/generate":
            choice = {"index": 0, "token_ids": GENERATED["token_ids"], "finish_reason": "stop"}
            return Response(_json({"request_id": request.body.get("request_id"), "choices": [choice]}))
    return Response(_json({"error": {"message": f"no such path: {request.path}"}}), 404)


def _generate_request(request: dict[str, Any], request_id: str) -> dict[str, Any]:
    return {
        "request_id": request_id,
        "token_ids": GENERATED["prompt_token_ids"],
        "sampling_params": {"max_tokens": 512},
        "model": request.get("model"),
        "stream": bool(request.get("stream")),
    }


async def _json(content: object) -> AsyncGenerator[bytes, None]:
    yield json.dumps(content).encode()


async def _stream(request: dict[str, Any]) -> AsyncGenerator[bytes, None]:
    token_ids, prompt = GENERATED["token_ids"], len(request["token_ids"])
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": len(token_ids),
        "total_tokens": prompt + len(token_ids),
    }
    for place, token_id in enumerate(token_ids, 1):
        finish_reason = "stop" if place == len(token_ids) else None
        choice = {"index": 0, "token_ids": [token_id], "finish_reason": finish_reason}
        yield _event(json.dumps({"request_id": request.get("request_id"), "choices": [choice]}))
        await asyncio.sleep(SECONDS_PER_TOKEN)
    yield _event(json.dumps({"request_id": request.get("request_id"), "choices": [], "usage": usage}))
    yield _event("[DONE]")


def _event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


def main() -> None:
    server = HttpServer(respond, int(sys.argv[1]) if len(sys.argv) > 1 else 8001)
    print(server.url)
    with suppress(KeyboardInterrupt):
        asyncio.run(server.serve())


if __name__ == "__main__":
    main()
