"""The channel between producers and the response: it waits for the receiver, and cancelling loses nothing."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from derender.relay.channel import Channel


async def receive_all(channel: Channel) -> list[bytes]:
    events = []
    while (event := await channel.receive()) is not None:
        events.append(event)
    return events


def test_a_closed_channel_passes_on_what_was_sent() -> None:
    async def run() -> None:
        channel = Channel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(channel.send, b"1")
            tasks.start_soon(channel.send, b"2")
            await anyio.wait_all_tasks_blocked()
            channel.close()
            assert await receive_all(channel) == [b"1", b"2"]
            assert await channel.receive() is None

    asyncio.run(run())


def test_closing_wakes_the_receiver() -> None:
    async def run() -> None:
        channel = Channel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive_all, channel)
            await anyio.wait_all_tasks_blocked()
            channel.close()

    asyncio.run(run())


def test_a_sender_waits_unless_the_receiver_does() -> None:
    async def run() -> None:
        channel = Channel()
        with anyio.move_on_after(0.01) as waiting:
            await channel.send(b"1")
        assert waiting.cancelled_caught
        assert await channel.receive() == b"1"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive_all, channel)
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(1):
                await channel.send(b"2")
                await channel.send(b"3")
            channel.close()

    asyncio.run(run())


@pytest.mark.parametrize("delay", [0, 0.001, 0.002])
def test_events_that_come_with_a_timeout_are_not_lost(delay: float) -> None:
    async def run() -> None:
        channel = Channel()
        received: list[bytes] = []

        async def receive() -> None:
            while len(received) < 200:
                with anyio.move_on_after(delay):
                    event = await channel.receive()
                    assert event is not None
                    received.append(event)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(receive)
                for number in range(200):
                    await channel.send(b"%d" % number)
                    await anyio.sleep(delay)
        assert received == [b"%d" % number for number in range(200)]

    asyncio.run(run())


def test_a_cancelled_sender_sends_its_event_once() -> None:
    async def run() -> None:
        for turns in range(5):
            channel = Channel()
            received: list[bytes] = []

            async def receive(channel: Channel = channel, received: list[bytes] = received) -> None:
                received += await receive_all(channel)

            async with anyio.create_task_group() as tasks:
                async with anyio.create_task_group() as senders:
                    for event in (b"1", b"2", b"3"):
                        senders.start_soon(channel.send, event)
                    await anyio.wait_all_tasks_blocked()
                    tasks.start_soon(receive)
                    for _ in range(turns):
                        await anyio.lowlevel.checkpoint()
                    senders.cancel_scope.cancel()
                channel.close()
            assert received == [b"1", b"2", b"3"]

    asyncio.run(run())
