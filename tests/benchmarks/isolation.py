"""Measure what others wait for while four clients post answers with 20 candidates to `derender serve`.

    python tests/benchmarks/isolation.py [--seconds N] [--clients N]

Prints percentiles of `GET /health`, and of how late a streamed chunk comes that the generate server sent, with
and without these clients.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import multiprocessing
import random
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

ROOT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "handlers"), str(ROOT / "layers" / "tokenizer")]

from examples.generate_server import HttpServer, Request, Response

from tests.benchmarks.streaming import CHAT, RELAY, Connection, serving
from tests.benchmarks.table import TOKENS, Row, show

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

__all__ = ["rows"]

CLIENTS: Final = 4
CANDIDATES: Final = 20
SIZE: Final = 151_643
"""Ids to choose from."""
PACE: Final = 0.01
"""Seconds between two requests, and between two chunks."""
_TIME: Final = "sent"
"""Field of a chunk's metrics that says when it was sent."""


def large_request() -> bytes:
    """Return a request whose answer has candidates."""
    rng = random.Random(1)
    content = []
    for _ in range(TOKENS):
        candidates = [
            {"token_id": rng.randrange(SIZE), "logprob": -rng.random() * 8, "rank": rank + 1}
            for rank in range(CANDIDATES)
        ]
        content.append({**candidates[0], "top_logprobs": candidates})
    choice = {
        "index": 0,
        "token_ids": [entry["token_id"] for entry in content],
        "finish_reason": "stop",
        "logprobs": {"content": content},
    }
    generated = {"request_id": "r", "choices": [choice]}
    client = {"logprobs": True, "top_logprobs": CANDIDATES}
    return orjson.dumps({"generate_response": generated, "chat_request": client})


def paced_server(ended: threading.Event) -> HttpServer:
    """Return a generate server that streams a token at a time, and says when."""

    async def stream() -> AsyncGenerator[bytes, None]:
        while not ended.is_set():
            choice = {"index": 0, "token_ids": [9707]}
            event = {"request_id": "r", "choices": [choice], "metrics": {_TIME: time.monotonic()}}
            yield b"data: %b\n\n" % orjson.dumps(event)
            await asyncio.sleep(PACE)

    async def respond(_: Request) -> Response:
        return Response(stream(), headers=(("content-type", "text/event-stream"),))

    return HttpServer(respond)


def post_answers(port: int, ended: Any, posted: Any) -> None:
    """Post large requests, one after the other, and count them."""
    connection, body = Connection(port), large_request()
    while not ended.is_set():
        connection.post(CHAT, body)
        with posted.get_lock():
            posted.value += 1


def ask_health(port: int, ended: threading.Event) -> list[float]:
    """Ask for the health, and return how long each answer takes."""
    connection, times = Connection(port), []
    while not ended.wait(PACE):
        begun = time.monotonic()
        connection.get("/health")
        times.append(time.monotonic() - begun)
    return times


def read_chunks(port: int, ended: threading.Event) -> list[float]:
    """Read a relayed stream, and return how late each chunk comes."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    request = {"token_ids": [1], "sampling_params": {}}
    body = orjson.dumps({"generate_request": request, "chat_request": {"stream": True}})
    connection.request("POST", RELAY, body, {"content-type": "application/json"})
    response, times = connection.getresponse(), []
    while not ended.is_set():
        line = response.readline()
        if line.startswith(b"data: {"):
            times.append(time.monotonic() - orjson.loads(line[6:])["metrics"][_TIME])
    connection.close()
    return times


def measure(port: int, seconds: float, clients: int) -> tuple[list[float], list[float], float]:
    """Measure for some seconds. Returns both lists of times, and the large answers per second."""
    context = multiprocessing.get_context("spawn")
    stop, posted = context.Event(), context.Value("i", 0)
    posters = [context.Process(target=post_answers, args=(port, stop, posted)) for _ in range(clients)]
    for poster in posters:
        poster.start()
    while clients and posted.value < 2 * clients:
        time.sleep(0.1)
    ended, results = threading.Event(), dict[str, list[float]]()

    def keep(probe: Callable[[int, threading.Event], list[float]]) -> None:
        results[probe.__name__] = probe(port, ended)

    probes = [threading.Thread(target=keep, args=(probe,)) for probe in (ask_health, read_chunks)]
    before = posted.value
    for thread in probes:
        thread.start()
    time.sleep(seconds)
    answered = posted.value - before
    ended.set()
    for thread in probes:
        thread.join()
    stop.set()
    for poster in posters:
        poster.join()
    return results["ask_health"], results["read_chunks"], answered / seconds


def rows(seconds: float, clients: int = CLIENTS) -> list[Row]:
    """Measure with and without the other clients."""
    ended = threading.Event()
    with paced_server(ended) as upstream, serving(upstream.port) as (port, _):
        alone, beside = measure(port, seconds, 0), measure(port, seconds, clients)
        ended.set()
    found = [
        Row(f"{name}, {label}", _show(part(busy)), "alone", _show(part(quiet)), "", "")
        for name, quiet, busy in (
            ("GET /health", alone[0], beside[0]),
            ("delay of a streamed chunk", alone[1], beside[1]),
        )
        for label, part in (("median", statistics.median), ("p99", _p99), ("longest", max))
    ]
    return [*found, Row("answers with 20 candidates", f"{beside[2]:.0f} a second", "", "", "", "")]


def _p99(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=100)[-1]


def _show(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="time of each measurement (%(default)s)")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="clients that post (%(default)s)")
    options = parser.parse_args()
    show(rows(options.seconds, options.clients))
