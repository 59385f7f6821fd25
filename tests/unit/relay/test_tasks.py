"""Concurrent tasks: the first failure, a limit, and a client that disconnects."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest

from derender.errors import BadGateway
from derender.relay.tasks import MAX_CONCURRENT, run_all, run_while_connected

if TYPE_CHECKING:
    from starlette.types import Message


async def stay_connected() -> Message:
    await anyio.sleep_forever()
    raise AssertionError


async def fail() -> None:
    await anyio.sleep(0)
    raise BadGateway("failed")


def test_the_first_failure_cancels_the_other_tasks_and_is_raised_itself() -> None:
    with pytest.raises(BadGateway, match="failed"):
        asyncio.run(run_all([anyio.sleep_forever, fail, anyio.sleep_forever]))


def test_only_so_many_tasks_run_at_once() -> None:
    running = most = 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0)
        running -= 1

    asyncio.run(run_all([work] * (MAX_CONCURRENT + 20)))
    assert most == MAX_CONCURRENT


def test_the_result_is_returned() -> None:
    async def work() -> int:
        await anyio.sleep(0)
        return 7

    assert asyncio.run(run_while_connected(stay_connected, work)) == 7


def test_a_failure_is_raised_itself() -> None:
    with pytest.raises(BadGateway, match="failed"):
        asyncio.run(run_while_connected(stay_connected, fail))


def test_a_disconnect_cancels_the_work() -> None:
    messages: list[Message] = [{"type": "http.request", "body": b""}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        return messages.pop(0)

    work = partial(anyio.sleep, 60)
    assert asyncio.run(run_while_connected(receive, work)) is None
    assert messages == []
