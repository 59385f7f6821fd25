"""Prefetching: items are computed on threads, ahead of the one that is needed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["MAX_AHEAD", "THREADS", "map_ahead"]

T = TypeVar("T")
U = TypeVar("U")

THREADS: Final = 16
"""Number of objects that are read at the same time."""
MAX_AHEAD: Final = 32
"""Maximum number of objects or lines that are read ahead."""


def map_ahead(
    threads: ThreadPoolExecutor, function: Callable[[T], U], items: Iterable[T], *, ahead: int = MAX_AHEAD
) -> Iterator[U]:
    """Yield what a function returns for each item, in order.

    Args:
        threads: Run the function.
        function: The function.
        items: The items.
        ahead: Maximum number of results that are computed ahead.
    """
    waiting: deque[Future[U]] = deque()
    for item in items:
        waiting.append(threads.submit(function, item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
