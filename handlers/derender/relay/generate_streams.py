"""Streams of a generate server, read until all choices have ended."""

from __future__ import annotations

import math
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

from anyio import current_time, move_on_after

from derender.errors import DerenderError, UpstreamLost

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from derender.http.workers import Run
    from derender.protocol.generate import GenerateChunk

    from .chunks import ChunkReader

__all__ = ["read_stream"]

GRACE_SECONDS: Final = 1.0
"""How long to wait for usage and the end of the stream after all choices have finished."""
_DONE: Final = b"[DONE]"


async def read_stream(
    events: AsyncGenerator[bytes, None],
    reader: ChunkReader,
    receive: Callable[[GenerateChunk, int], Awaitable[None]],
    run: Run,
) -> None:
    """Read a stream until it ends or nothing more of it matters, and close it.

    Args:
        events: The data of its events.
        reader: Reads the chunks.
        receive: Receives each chunk and the bytes of its event. Returns once the next one may come.
        run: Runs the work on an event.

    Raises:
        DerenderError: The stream failed before all choices had ended.
    """
    with move_on_after(math.inf) as grace:
        async with aclosing(events):
            complete = False
            try:
                async for data in events:
                    if data == _DONE:
                        if complete:
                            continue  # read the body to its end, so that the connection can be reused
                        break
                    chunk = await run(len(data), partial(reader.read, data))
                    if chunk is not None:
                        await receive(chunk, len(data))
                    if reader.ended:
                        complete = True
                        if reader.stopped:
                            return  # the generate server goes on
                        grace.deadline = current_time() + GRACE_SECONDS
            except DerenderError:
                # Once all choices have ended, the answer is complete.
                if not complete:
                    raise
    if not reader.ended:
        raise UpstreamLost("the generate server ended its stream before all choices had finished")
