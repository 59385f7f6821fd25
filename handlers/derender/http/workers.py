"""Work beside the event loop, so that a large request does not stop the others.

One thread does the large work, one after the other. More would take turns with the event loop for the
interpreter, and all would wait longer; the interpreter does one thing at a time in any case.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio import CapacityLimiter

__all__ = ["INLINE", "LARGE", "SMALL", "Run", "open_worker"]

T = TypeVar("T")

SMALL: Final = 8 * 1024
"""Bytes of a request that takes a few milliseconds at most. To hand it over would take longer than to wait."""
LARGE: Final = SMALL + 1
"""A size of work that may be large."""
_SWITCH_SECONDS: Final = 0.0005
"""Seconds after which the event loop gets the interpreter back, instead of Python's five milliseconds."""


class Run(Protocol):
    """Runs work."""

    async def __call__(self, size: int, work: Callable[[], T], /) -> T:
        """Do some work on a number of bytes, and return its result."""


class _Inline:
    async def __call__(self, size: int, work: Callable[[], T], /) -> T:  # noqa: ARG002 - for other runners
        return work()


INLINE: Final[Run] = _Inline()
"""Does all work at once: on Lambda, where a process has one request at a time."""


class _Worker:
    def __init__(self, count: int) -> None:
        self._count = count
        self._limiter: CapacityLimiter | None = None

    async def __call__(self, size: int, work: Callable[[], T], /) -> T:
        if size <= SMALL:
            return work()
        from anyio import CapacityLimiter, to_thread

        if self._limiter is None:  # it belongs to an event loop
            self._limiter = CapacityLimiter(self._count)
        return await to_thread.run_sync(work, limiter=self._limiter)


def open_worker(count: int = 1) -> Run:
    """Return what does small work at once, and large work in threads beside the event loop."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    return _Worker(count)
