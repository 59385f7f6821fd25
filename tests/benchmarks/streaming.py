"""Measure streams over loopback HTTP: a chunk after any history, and complete generations in three ways."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import orjson
from examples.generate_server import HttpServer, Request, Response
from tokenizers import Tokenizer

from tests.benchmarks.parsing import CODE, TOOLS, WORDS
from tests.benchmarks.table import Row

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from pathlib import Path

__all__ = ["generate_server", "rows", "serving"]

CHAT: Final = "/v1/chat/completions/derender"
RELAY: Final = f"{CHAT}/relay"
HISTORIES: Final = (64, 2_048, 16_384)
GENERATION: Final = 2_048
PER_CALL: Final = 16
"""Number of chunks in a request that sends several."""
CLIENT: Final = {"messages": [{"role": "user", "content": "Write it."}], "tools": TOOLS}


def generate_server(token_ids: list[int]) -> HttpServer:
    """Return a generate server that streams token ids, one per event, as fast as its client reads."""
    events = [
        orjson.dumps({"request_id": "r", "choices": [{"index": 0, "token_ids": [token_id]}]})
        for token_id in token_ids
    ]
    last = {"index": 0, "token_ids": [], "finish_reason": "stop"}
    events += [orjson.dumps({"request_id": "r", "choices": [last]}), b"[DONE]"]
    content = b"".join(b"data: %b\n\n" % event for event in events)

    async def stream() -> AsyncGenerator[bytes, None]:
        for begin in range(0, len(content), 4096):
            yield content[begin : begin + 4096]

    async def respond(_: Request) -> Response:
        return Response(stream(), headers=(("content-type", "text/event-stream"),))

    return HttpServer(respond)


@contextlib.contextmanager
def serving(upstream: int | None = None) -> Iterator[tuple[int, int]]:
    """Run `derender serve` with the bundled vocabulary and its parsers.

    Args:
        upstream: Port of the generate server that it relays to, if it relays.

    Yields:
        The port and the process id.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DERENDER_")}
    if upstream is not None:
        gpu = {"url": f"http://127.0.0.1:{upstream}", "served_model_name": "m"}
        environment["DERENDER_UPSTREAMS"] = json.dumps({"gpu": gpu})
    command = [sys.executable, "-m", "derender", "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        else:
            raise SystemExit("derender serve did not start")
        yield port, process.pid
    finally:
        process.terminate()
        process.communicate()


class Connection:
    """A persistent connection to the server."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)

    def post(self, path: str, body: bytes) -> bytes:
        """Send JSON and return the body of the answer."""
        self._connection.request("POST", path, body, {"content-type": "application/json"})
        response = self._connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise SystemExit(f"{path}: {content!r}")
        return content

    def get(self, path: str) -> bytes:
        """Return the body of the answer."""
        self._connection.request("GET", path)
        return self._connection.getresponse().read()


def _chunk(*token_ids: int, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "token_ids": token_ids, "finish_reason": finish}
    return {"request_id": "r", "choices": [choice]}


def _body(state: object, *, chunks: list[dict[str, Any]]) -> bytes:
    sent = {"generate_chunk": chunks[0]} if len(chunks) == 1 else {"generate_chunks": chunks}
    return orjson.dumps({"stream": True, **sent, "stream_state": state, "chat_request": CLIENT})


def outputs(definition: Tokenizer) -> dict[str, list[int]]:
    """Return the ids of a long answer and of a long call."""
    longest = HISTORIES[-1] + 8
    call = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.py", "content": "'
    texts = {"an answer": WORDS * longest, "a call": call + CODE * longest}
    return {
        name: definition.encode(text[: 8 * longest], add_special_tokens=False).ids[:longest]
        for name, text in texts.items()
    }


def rows(rounds: int, tokenizer: Path) -> list[Row]:
    """Measure all figures.

    Args:
        rounds: How often each is measured.
        tokenizer: Folder of the bundled vocabulary's tokenizer.
    """
    found = outputs(Tokenizer.from_file(str(tokenizer / "tokenizer.json")))
    answer = found["an answer"][:GENERATION]
    with generate_server(answer) as upstream, serving(upstream.port) as (port, _):
        connection = Connection(port)
        chunks = [_chunk_rows(connection, name, token_ids, rounds * 20) for name, token_ids in found.items()]
        return [*chain.from_iterable(chunks), *_total_rows(connection, answer, max(rounds // 3, 1))]


def _chunk_rows(connection: Connection, name: str, token_ids: list[int], rounds: int) -> list[Row]:
    """Measure a chunk of one token after each history, in turns, beside a health check."""
    bodies: dict[int, bytes] = {}
    sizes: dict[int, int] = {}
    state = None
    for begin, end in zip((0, *HISTORIES), HISTORIES, strict=False):
        sent = [_chunk(*token_ids[at : at + 64]) for at in range(begin, end, 64)]
        state = orjson.loads(connection.post(CHAT, _body(state, chunks=sent)))["stream_state"]
        sizes[end] = len(orjson.dumps(state))
        bodies[end] = _body(state, chunks=[_chunk(token_ids[end])])
    times: dict[int, list[float]] = {history: [] for history in (0, *HISTORIES)}
    for _ in range(rounds):
        for history, taken in times.items():
            begun = time.perf_counter()
            if history:
                connection.post(CHAT, bodies[history])
            else:
                connection.get("/health")
            taken.append(time.perf_counter() - begun)
    medians = {history: statistics.median(taken) for history, taken in times.items()}
    first = medians[HISTORIES[0]]
    found = [
        Row(
            f"HTTP, a chunk after {history:,} tokens, in {name}",
            f"{medians[history] * 1e3:.2f} ms",
            f"after {HISTORIES[0]} tokens" if history != HISTORIES[0] else "GET /health",
            f"{(first if history != HISTORIES[0] else medians[0]) * 1e3:.2f} ms",
            f"{medians[history] / (first if history != HISTORIES[0] else medians[0]):.2f}",
            "1.5 ms, 1.3 times" if history != HISTORIES[0] else "1.5 ms",
        )
        for history in HISTORIES
    ]
    found += [
        Row(
            f"stream state, in {name}",
            f"{sizes[history]:,} bytes",
            f"after {history:,} tokens",
            "",
            "",
            "2,048 bytes",
        )
        for history in HISTORIES
    ]
    return found


def _total_rows(connection: Connection, token_ids: list[int], rounds: int) -> list[Row]:
    """Measure a generation with one id per chunk: one chunk per request, several, and the relay."""

    def calls(size: int) -> None:
        state = None
        sent = [_chunk(token_id) for token_id in token_ids] + [_chunk(finish="stop")]
        for begin in range(0, len(sent), size):
            answer = orjson.loads(connection.post(CHAT, _body(state, chunks=sent[begin : begin + size])))
            state = answer["stream_state"]

    def relay() -> None:
        request = {"token_ids": [1], "sampling_params": {}}
        body = orjson.dumps({"generate_request": request, "chat_request": {**CLIENT, "stream": True}})
        answer = connection.post(RELAY, body)
        if not answer.endswith(b"data: [DONE]\n\n"):
            raise SystemExit(f"the relay ended with {answer[-300:]!r}")

    ways = {
        "a request for each": lambda: calls(1),
        f"{PER_CALL} a request": lambda: calls(PER_CALL),
        "the relay": relay,
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            begun = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - begun)
    return [
        Row(
            f"{GENERATION:,} tokens, one a chunk, {name}",
            f"{statistics.median(taken):.2f} s",
            "vLLM 0.33, as recorded",
            "74 s",
            f"{statistics.median(taken) / 74:.4f}",
            "",
        )
        for name, taken in times.items()
    ]
