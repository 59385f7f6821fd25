"""Stream many generations at once through `derender serve`, and check each answer and that memory stays flat.

    python tests/benchmarks/soak.py [--streams N] [--tokens N] [--per-call N] [--relay]

Prints how long it takes and how much memory the server has. Exits with 1 if an answer is wrong or memory grows.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

ROOT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "handlers"), str(ROOT / "layers" / "tokenizer")]

from tokenizers import Tokenizer

from fetch import fetch
from tests.benchmarks.parsing import WORDS
from tests.benchmarks.streaming import CHAT, CLIENT, RELAY, generate_server, serving

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_GROWTH: Final = 16 * 1024
"""Kilobytes that the server may grow after the first tenth of the work."""


@dataclass
class Progress:
    """What is done so far.

    Attributes:
        tokens: Tokens that were derendered.
        times: Seconds that each request took. A relayed generation is one request.
        memory: Kilobytes of the server's memory, measured every half second.
    """

    tokens: int = 0
    times: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: bytes) -> bytes:
    """Post JSON on an open connection, and return the body of the answer."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answered = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in answered.partition(b"\r\n")[0]:
        raise SystemExit(f"{path}: {answered!r}")
    if b"content-length: " in answered:
        return await reader.readexactly(int(answered.partition(b"content-length: ")[2].split(b"\r\n")[0]))
    parts = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(parts)


def join_text(chunks: list[dict[str, Any]]) -> str:
    """Join the text of chunks."""
    return "".join(choice["delta"]["content"] or "" for chunk in chunks for choice in chunk["choices"])


async def stream_by_calls(
    port: int, token_ids: list[int], per_call: int, number: int, progress: Progress
) -> str:
    """Derender one generation, with several chunks of one token per request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    state, texts = None, []
    for begin in range(0, len(token_ids), per_call):
        part = token_ids[begin : begin + per_call]
        chunks: list[dict[str, Any]] = [
            {"request_id": f"r-{number}", "choices": [{"index": 0, "token_ids": [token_id]}]}
            for token_id in part
        ]
        if begin + per_call >= len(token_ids):
            chunks[-1]["choices"][0]["finish_reason"] = "stop"
        body = {"stream": True, "generate_chunks": chunks, "stream_state": state, "chat_request": CLIENT}
        begun = time.perf_counter()
        answer = orjson.loads(await post(reader, writer, CHAT, orjson.dumps(body)))
        progress.times.append(time.perf_counter() - begun)
        progress.tokens += len(part)
        state = answer["stream_state"]
        texts.append(join_text(answer["chunks"]))
    writer.close()
    return "".join(texts)


async def stream_by_relay(port: int, token_ids: list[int], number: int, progress: Progress) -> str:
    """Have one generation relayed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = {"request_id": f"r-{number}", "token_ids": [1], "sampling_params": {}}
    body = {"generate_request": request, "chat_request": {**CLIENT, "stream": True}}
    begun = time.perf_counter()
    answer = await post(reader, writer, RELAY, orjson.dumps(body))
    progress.times.append(time.perf_counter() - begun)
    progress.tokens += len(token_ids)
    writer.close()
    *events, done, end = answer.split(b"\n\n")
    if (done, end) != (b"data: [DONE]", b""):
        raise SystemExit(f"the relay ended with {answer[-300:]!r}")
    return join_text(
        [orjson.loads(event.removeprefix(b"data: ")) for event in events if not event.startswith(b":")]
    )


def read_memory(process: int) -> int:
    """Return the resident memory of a process in kilobytes."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])


async def watch_memory(process: int, progress: Progress, total: int) -> None:
    """Measure the server's memory from the first tenth of the work on."""
    while True:
        await asyncio.sleep(0.5)
        if progress.tokens >= total / 10:
            progress.memory.append(read_memory(process))


async def soak(
    options: argparse.Namespace, port: int, process: int, token_ids: list[int]
) -> tuple[Progress, list[str]]:
    """Stream all generations at once, and return their texts."""
    progress = Progress()
    watching = asyncio.create_task(watch_memory(process, progress, options.streams * len(token_ids)))
    texts = await asyncio.gather(
        *[
            stream_by_relay(port, token_ids, number, progress)
            if options.relay
            else stream_by_calls(port, token_ids, options.per_call, number, progress)
            for number in range(options.streams)
        ]
    )
    progress.memory.append(read_memory(process))
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    return progress, list(texts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description="Stream many generations at once, and check answers and memory."
    )
    parser.add_argument("--streams", type=int, default=200, help="generations at once (%(default)s)")
    parser.add_argument("--tokens", type=int, default=2_000, help="tokens of each, one per chunk (%(default)s)")
    parser.add_argument("--per-call", type=int, default=16, help="chunks per request (%(default)s)")
    parser.add_argument("--relay", action="store_true", help="relay each generation")
    options = parser.parse_args(arguments)
    folder = fetch(ROOT / ".cache" / "tokenizers", "qwen3")
    definition = Tokenizer.from_file(str(folder / "tokenizer.json"))
    token_ids = definition.encode(WORDS * options.tokens, add_special_tokens=False).ids[: options.tokens]
    expected = definition.decode(token_ids)

    with generate_server(token_ids) as upstream, serving(upstream.port) as (port, process):
        begun = time.perf_counter()
        progress, texts = asyncio.run(soak(options, port, process, token_ids))
        taken = time.perf_counter() - begun
    wrong = sum(each.rstrip() != expected.rstrip() for each in texts)
    first, most = progress.memory[0], max(progress.memory)
    median, slowest = statistics.median(progress.times), max(progress.times)
    print(
        f"{options.streams} generations of {options.tokens:,} tokens, "
        f"{'relayed' if options.relay else f'{options.per_call} chunks per request'}: {taken:.1f} s, "
        f"{progress.tokens / taken:,.0f} chunks per second; a request {median * 1e3:,.0f} ms, the slowest "
        f"{slowest * 1e3:,.0f} ms; {wrong} wrong; memory {first / 1024:.1f} MB after a tenth, at most "
        f"{most / 1024:.1f} MB"
    )
    return 1 if wrong or most - first > MAX_GROWTH else 0


if __name__ == "__main__":
    sys.exit(main())
