"""A channel between the tasks that produce a response's events and the one that sends them."""

from __future__ import annotations

from collections import deque

from anyio import Event

__all__ = ["Channel"]


class Channel:
    """Passes events on, no faster than the receiver takes them.

    Cancelling a task on either side neither loses an event nor repeats one. anyio's memory streams may do both.
    """

    def __init__(self) -> None:
        """Open the channel."""
        self._events: deque[tuple[bytes, Event]] = deque()
        self._added: Event | None = None  # while the receiver waits
        self._closed = False

    async def send(self, event: bytes) -> None:
        """Pass an event on, and wait until the receiver takes it, unless the receiver is waiting for it.

        If the wait is cancelled, the receiver still gets the event.
        """
        awaited = self._added is not None and not self._events
        taken = Event()
        self._events.append((event, taken))
        self._wake_receiver()
        if not awaited:
            await taken.wait()

    def close(self) -> None:
        """Let the receiver take what was sent, and then nothing."""
        self._closed = True
        self._wake_receiver()

    async def receive(self) -> bytes | None:
        """Wait for the next event. Returns None once the channel is closed and empty."""
        while not self._events:
            if self._closed:
                return None
            self._added = Event()
            try:
                await self._added.wait()
            finally:
                self._added = None
        event, taken = self._events.popleft()
        taken.set()
        return event

    def _wake_receiver(self) -> None:
        if self._added is not None:
            self._added.set()
