"""A generate server and a render service, as HTTP servers on this machine that answer as a test says."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

GENERATE: Final = "/inference/v1/generate"
RENDER_CHAT: Final = "/v1/chat/completions/render"
RENDER_COMPLETIONS: Final = "/v1/completions/render"
DONE: Final = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Pause:
    """Nothing for some time."""

    seconds: float


class Hang:
    """Nothing more, until the client goes away."""


class Break:
    """The connection is lost."""


class Gate:
    """Nothing more, until so many answers have come to it."""

    def __init__(self, count: int) -> None:
        self.left = count


Part = bytes | Pause | Gate | type[Hang] | type[Break]


@dataclass(frozen=True)
class Reply:
    """What a request is answered with, and how."""

    parts: Iterable[Part]
    status: int = 200
    content_type: str = "text/event-stream"
    headers: Sequence[tuple[str, str]] = ()
    before: Sequence[Part] = ()
    """What happens before the status is sent."""


@dataclass
class Asked:
    """A request that was received."""

    connection: int
    path: str
    headers: dict[str, str]
    content: bytes
    sent: int = 0
    """Bytes of the answer's body that the connection has taken."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when the client went away before the answer's end."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when the answer was sent, or not any more."""

    @property
    def body(self) -> Any:
        """The request's JSON."""
        return json.loads(self.content)


def stream(chunks: Iterable[object], *, done: bool = True) -> Reply:
    """A generate server's stream."""
    return Reply([*(sse(chunk) for chunk in chunks), *([DONE] if done else [])])


def sse(content: object) -> bytes:
    """An event."""
    return b"data: %b\n\n" % json.dumps(content).encode()


def answer(content: object, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Reply:
    """A JSON answer."""
    return Reply([json.dumps(content).encode()], status, "application/json", headers)


class UpstreamServer:
    """Answers requests with what `respond` returns, and remembers them."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.respond: Callable[[Asked], Reply] = lambda _: answer({}, 500)
        self._connections = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def forget(self) -> None:
        """Begin a test."""
        self.asked = []

    def replies(self, *replies: Reply) -> None:
        """Answer with these, one after the other, and then with the last."""
        left = list(replies)
        self.respond = lambda _: left.pop(0) if len(left) > 1 else left[0]

    def wait_for(self, count: int) -> list[Asked]:
        """The requests, once there are so many."""
        wait_until(lambda: len(self.asked) >= count)
        return self.asked

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Little is to be on its way: how much the relay reads ahead is measured.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        self._connections += 1
        number = self._connections
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._exchange(number, reader, writer):
                    pass
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _exchange(
        self, connection: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer a request. Returns whether there may be another."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        content = await reader.readexactly(int(headers.get("content-length", "0")))
        asked = Asked(connection, first.split()[1], headers, content)
        reply = self.respond(asked)
        self.asked.append(asked)
        sending = asyncio.ensure_future(self._send(asked, reply, writer))
        try:
            while not sending.done():
                if reader.at_eof() or reader.exception():
                    asked.cancelled.set()
                    sending.cancel()
                await asyncio.wait([sending], timeout=0.002)
            return not sending.cancelled() and sending.result()
        except ConnectionError:
            asked.cancelled.set()
            return False
        finally:
            asked.ended.set()

    async def _send(self, asked: Asked, reply: Reply, writer: asyncio.StreamWriter) -> bool:
        for part in reply.before:
            if not await self._act(part, writer):
                return False
        lines = [
            f"HTTP/1.1 {reply.status} Status",
            f"content-type: {reply.content_type}",
            "transfer-encoding: chunked",
            *(f"{name}: {value}" for name, value in reply.headers),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for part in reply.parts:
            if isinstance(part, bytes):
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                await writer.drain()
                asked.sent += len(part)
            elif not await self._act(part, writer):
                return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _act(self, part: Part, writer: asyncio.StreamWriter) -> bool:
        if isinstance(part, Pause):
            await asyncio.sleep(part.seconds)
            return True
        if isinstance(part, Gate):
            part.left -= 1
            while part.left > 0:
                await asyncio.sleep(0.002)
            return True
        if part is Hang:
            await asyncio.Event().wait()
        await writer.drain()
        # What was written is to arrive before the connection is lost.
        await asyncio.sleep(0.02)
        writer.transport.abort()
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for what happens in another thread."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)
