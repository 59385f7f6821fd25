"""Concurrent tasks, which end with the first that fails and when the client disconnects."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from anyio import CapacityLimiter, create_task_group

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from anyio.abc import TaskGroup
    from starlette.types import Receive

    Work = Callable[[], Awaitable[None]]

__all__ = ["open_task_group", "run_all", "run_while_connected"]

MAX_CONCURRENT: Final = 64
"""Maximum upstream requests that one client request has open at a time."""

T = TypeVar("T")


@asynccontextmanager
async def open_task_group() -> AsyncIterator[TaskGroup]:
    """Open a task group that raises the first exception as it is, not inside a group."""
    try:
        async with create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


async def run_while_connected(receive: Receive, work: Callable[[], Awaitable[T]]) -> T | None:
    """Do some work, and cancel it as soon as the client disconnects.

    Args:
        receive: Receives the ASGI messages of a request whose body has been read.
        work: The work.

    Returns:
        The result, or None if the client disconnected.
    """
    result = None
    async with open_task_group() as tasks:

        async def wait_for_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(wait_for_disconnect)
        result = await work()
        tasks.cancel_scope.cancel()
    return result


async def run_all(works: Iterable[Work]) -> None:
    """Do several works concurrently. The first that fails cancels the others."""
    limiter = CapacityLimiter(MAX_CONCURRENT)

    async def do(work: Work) -> None:
        async with limiter:
            await work()

    async with open_task_group() as tasks:
        for work in works:
            tasks.start_soon(do, work)
