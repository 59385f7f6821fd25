"""Several things at once, for as long as a client waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anyio import CapacityLimiter, create_task_group

from derender.telemetry.faults import client_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.types import Receive

    from derender.errors import DerenderError

    Work = Callable[[], Awaitable[None]]

__all__ = ["all_of", "fault_in", "while_connected"]

MOST_AT_ONCE: Final = 64
"""Most upstream requests of one client request at a time."""


async def while_connected(receive: Receive, work: Work) -> None:
    """Do some work, and end it at once if the client goes away.

    Args:
        receive: What the server says of the client, whose request has been read.
        work: The work.

    Raises:
        DerenderError: The work fails so.
    """
    fault: DerenderError | None = None
    async with create_task_group() as tasks:

        async def listen() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(listen)
        fault = await fault_in(work)
        tasks.cancel_scope.cancel()
    if fault is not None:
        raise fault


async def all_of(works: Iterable[Work]) -> None:
    """Do several works at once. The first that fails ends the others.

    Raises:
        DerenderError: One fails so.
    """
    faults: list[DerenderError] = []
    places = CapacityLimiter(MOST_AT_ONCE)
    async with create_task_group() as tasks:

        async def do(work: Work) -> None:
            async with places:
                fault = await fault_in(work)
            if fault is not None:
                faults.append(fault)
                tasks.cancel_scope.cancel()

        for work in works:
            tasks.start_soon(do, work)
    if faults:
        raise faults[0]


async def fault_in(work: Work) -> DerenderError | None:
    """Do some work. Returns what is wrong with it, if anything is."""
    try:
        await work()
    except Exception as error:
        return client_error(error)
    return None
